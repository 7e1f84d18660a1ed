//! Contenders that need a process of their own, and the pipe between it and this one.
//!
//! A child is started once for each [`Mode`] and asked for one sample at a time, so that its
//! contenders take their turn among the others. While it is not asked, it sleeps in a read.
//!
//! The child is this very program with the same arguments and `--serve MODE` behind them, so that
//! it has the same cases, and is asked for one of them. One request or answer is one line of JSON.

use alloc::rc::Rc;
use core::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Case, Contender, Failure, Mode, Part, Sample, Sampler, Trace, become_threaded};

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Forget the earlier case of this contender and make this one ready.
    Prepare {
        case: String,
        contender: String,
    },
    Sample {
        contender: String,
    },
}

/// What the child answers: one number for each row, none if the case is ready; or why it cannot.
type Answer = Result<Vec<f64>, String>;

pub(crate) struct Children {
    /// Whether their memory is followed over time.
    are_traced: bool,
    by_mode: HashMap<&'static str, Rc<RefCell<Line>>>,
}

impl Children {
    pub(crate) fn new(are_traced: bool) -> Children {
        Children { are_traced, by_mode: HashMap::new() }
    }

    pub(crate) fn sampler(
        &mut self,
        mode: Mode,
        case: &Case,
        contender: &Contender,
    ) -> Result<Sampler, Failure> {
        let line = match self.by_mode.get(mode.name).filter(|_| !mode.is_fresh) {
            Some(line) => Rc::clone(line),
            None => {
                let line = Rc::new(RefCell::new(Line::start(mode)?));
                self.by_mode.insert(mode.name, Rc::clone(&line));
                line
            }
        };
        let contender = contender.name();
        let prepare =
            Request::Prepare { case: case.name().to_owned(), contender: contender.clone() };
        line.borrow_mut().ask(&prepare)?;
        Ok(Box::new(Remote { line, contender, is_traced: self.are_traced, trace: None }))
    }
}

struct Remote {
    line: Rc<RefCell<Line>>,
    contender: String,
    is_traced: bool,
    /// Memory of the child during the last sample.
    trace: Option<Value>,
}

impl Sample for Remote {
    fn sample(&mut self) -> Result<Vec<f64>, Failure> {
        let mut line = self.line.borrow_mut();
        let trace = self.is_traced.then(|| Trace::start(line.process.id()));
        let values = line.ask(&Request::Sample { contender: self.contender.clone() });
        self.trace = trace.map(Trace::end);
        values
    }

    fn work(&self) -> Option<Value> {
        self.trace.clone()
    }
}

/// Takes samples in a program that is no bench: it has one contender, and answers each line.
pub(crate) fn answering(command: &mut Command) -> Result<Sampler, Failure> {
    let mut line = Line::to(command)?;
    Ok(Box::new(move || line.ask(&Request::Sample { contender: String::new() })))
}

fn failed(error: std::io::Error) -> Failure {
    Failure::run(format!("cannot start a child process: {error}"))
}

struct Line {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Line {
    fn start(mode: Mode) -> Result<Line, Failure> {
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).args(["--serve", mode.name]);
        Line::to(command.envs((mode.environment)()))
    }

    fn to(command: &mut Command) -> Result<Line, Failure> {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(requests), Some(answers)) => {
                Ok(Line { process, requests, answers: BufReader::new(answers) })
            }
            _ => Err(Failure::run("a child process has no pipes")),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Vec<f64>, Failure> {
        let lost = || Failure::run("a child process ended in the middle of the run");
        let mut text = serde_json::to_string(request).map_err(|_| lost())?;
        text.push('\n');
        self.requests.write_all(text.as_bytes()).map_err(|_| lost())?;
        text.clear();
        self.answers.read_line(&mut text).map_err(|_| lost())?;
        parse(&text).ok_or_else(lost)?.map_err(Failure::run)
    }
}

fn parse(text: &str) -> Option<Answer> {
    let answer: Result<Vec<Option<f64>>, String> = serde_json::from_str(text).ok()?;
    // JSON has no NaN, and writes null instead.
    Some(answer.map(|values| values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect()))
}

impl Drop for Line {
    fn drop(&mut self) {
        // The child is idle or gone, and leaves nothing behind that would need an orderly end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The child's side: answers until the pipe is closed.
pub(crate) fn serve(mode: &str, cases: &[Case]) -> Result<(), Failure> {
    let mut ready = HashMap::new();
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        let Ok(line) = line else { break };
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer_to(request, mode, cases, &mut ready),
            Err(_) => Err("a request that does not fit".to_owned()),
        };
        let mut text = serde_json::to_string(&answer)
            .map_err(|error| Failure::run(format!("no JSON: {error}")))?;
        text.push('\n');
        if output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_err() {
            break;
        }
    }
    Ok(())
}

type Ready = HashMap<String, Sampler>;

fn answer_to(request: Request, mode: &str, cases: &[Case], ready: &mut Ready) -> Answer {
    let result = match request {
        Request::Prepare { case, contender } => {
            // The contender's memory first: it may not fit twice.
            ready.remove(&contender);
            make(&case, &contender, mode, cases).map(|sampler| {
                ready.insert(contender, sampler);
                Vec::new()
            })
        }
        Request::Sample { contender } => match ready.get_mut(&contender) {
            Some(sampler) => sampler.sample(),
            None => Err(Failure::run(format!("{contender} is not ready"))),
        },
    };
    result.map_err(|failure| failure.message)
}

fn make(case: &str, contender: &str, mode: &str, cases: &[Case]) -> Result<Sampler, Failure> {
    let case = cases.iter().find(|known| known.name() == case);
    let mut contenders = case.into_iter().flat_map(|case| &case.contenders);
    match contenders.find(|known| known.name() == contender) {
        Some(Contender { mode: Some(own), part: Part::Takes(make), .. }) if own.name == mode => {
            if !own.is_fresh {
                become_threaded();
            }
            make()
        }
        _ => Err(Failure::run(format!("{contender} does not run in the mode {mode}"))),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/harness_child.rs"]
mod tests;
