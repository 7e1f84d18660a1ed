//! Contenders that need a process of their own, and the pipe between it and this one.
//!
//! Google's tcmalloc keeps its caches per CPU only where it can register restartable sequences
//! itself, that is in a process that was started with glibc's registration switched off. It is
//! therefore measured in two child processes, one with glibc's registration and one without, and
//! the better figure counts. Each child is started once and asked for one sample at a time, so that
//! it takes its turn among the other contenders. While it is not asked, it sleeps in a read.
//!
//! In a third mode Sheaves itself runs on 64 virtual slots, of which most machines have fewer.
//!
//! The child is this very program with the same arguments and `--serve MODE` behind them. One
//! request or answer is one line of JSON.

use alloc::rc::Rc;
use core::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::contender::Kind;
use crate::failure::Failure;
use crate::measure::{Sampler, become_threaded};
use crate::workload::Job;
use crate::workload::counter::SUM_SLOTS;

/// The mode in which glibc leaves restartable sequences alone.
const PER_CPU: &str = "percpu";
/// The mode in which Sheaves has 64 virtual slots.
const SLOTS: &str = "64slots";

/// What the parent asks for.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Forget all earlier workloads of this contender and make this one ready.
    Prepare { job: Job, contender: String },
    /// Take a sample.
    Sample { contender: String },
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// The workload is ready.
    Ready,
    /// One number for each row.
    Values(Vec<f64>),
    /// It cannot be done.
    Refused(String),
}

/// The child processes of a run, started when first needed.
#[derive(Default)]
pub(crate) struct Children {
    by_mode: HashMap<&'static str, Rc<RefCell<Line>>>,
}

impl Children {
    pub(crate) fn new() -> Children {
        Children::default()
    }

    /// A sampler that has each sample taken in the child of that mode.
    pub(crate) fn sampler(
        &mut self,
        mode: &'static str,
        job: &Job,
        kind: Kind,
    ) -> Result<Sampler, Failure> {
        let line = match self.by_mode.get(mode) {
            Some(line) => Rc::clone(line),
            None => {
                let line = Rc::new(RefCell::new(Line::start(mode)?));
                self.by_mode.insert(mode, Rc::clone(&line));
                line
            }
        };
        let contender = kind.name().to_owned();
        let prepare = Request::Prepare { job: job.clone(), contender: contender.clone() };
        match line.borrow_mut().ask(&prepare)? {
            Answer::Ready => {}
            answer => return Err(unexpected(&answer)),
        }
        Ok(Box::new(move || {
            match line.borrow_mut().ask(&Request::Sample { contender: contender.clone() })? {
                Answer::Values(values) => Ok(values),
                answer => Err(unexpected(&answer)),
            }
        }))
    }
}

fn unexpected(answer: &Answer) -> Failure {
    match answer {
        Answer::Refused(reason) => Failure::run(reason.clone()),
        _ => Failure::run("a child process gave an answer that does not fit"),
    }
}

/// A child process and both ends of the pipe to it.
struct Line {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Line {
    fn start(mode: &str) -> Result<Line, Failure> {
        let failed =
            |error: std::io::Error| Failure::run(format!("cannot start a child process: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).args(["--serve", mode]);
        if mode == PER_CPU {
            command.env("GLIBC_TUNABLES", tunables(std::env::var("GLIBC_TUNABLES").ok()));
            // Where libc registers no area, Sheaves registers its own, and a thread has but one:
            // this child's belongs to the peer.
            command.env("SHEAVES_ENGINE", "portable");
        }
        if mode == SLOTS {
            command.env("SHEAVES_ENGINE", "portable");
            command.env("SHEAVES_SLOTS", SUM_SLOTS.to_string());
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(requests), Some(answers)) => {
                Ok(Line { process, requests, answers: BufReader::new(answers) })
            }
            _ => Err(Failure::run("a child process has no pipes")),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        let lost = || Failure::run("a child process ended in the middle of the run");
        let mut text = serde_json::to_string(request).map_err(|_| lost())?;
        text.push('\n');
        self.requests.write_all(text.as_bytes()).map_err(|_| lost())?;
        text.clear();
        self.answers.read_line(&mut text).map_err(|_| lost())?;
        serde_json::from_str(&text).map_err(|_| lost())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The child is idle or gone, and leaves nothing behind that would need an orderly end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The tunables for a child, with restartable sequences left to the program.
fn tunables(inherited: Option<String>) -> String {
    let own = "glibc.pthread.rseq=0";
    match inherited {
        Some(list) if !list.is_empty() => format!("{list}:{own}"),
        _ => own.to_owned(),
    }
}

/// The child's side: answers until the pipe is closed.
pub(crate) fn serve(mode: &str) -> Result<(), Failure> {
    become_threaded();
    let mut ready: HashMap<String, Sampler> = HashMap::new();
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        let Ok(line) = line else { break };
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer_to(request, mode, &mut ready),
            Err(_) => Answer::Refused("a request that does not fit".to_owned()),
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

fn answer_to(request: Request, mode: &str, ready: &mut HashMap<String, Sampler>) -> Answer {
    let result = match request {
        Request::Prepare { job, contender } => prepare(&job, contender, mode, ready),
        Request::Sample { contender } => match ready.get_mut(&contender) {
            Some(sampler) => sampler.sample().map(Answer::Values),
            None => Err(Failure::run(format!("{contender} is not ready"))),
        },
    };
    result.unwrap_or_else(|failure| Answer::Refused(failure.message))
}

fn prepare(
    job: &Job,
    contender: String,
    mode: &str,
    ready: &mut HashMap<String, Sampler>,
) -> Result<Answer, Failure> {
    let kind = Kind::named(&contender).filter(|kind| kind.mode() == Some(mode));
    let Some(kind) = kind else {
        return Err(Failure::run(format!("{contender} does not run in the mode {mode}")));
    };
    #[cfg(feature = "peers")]
    if kind.role().is_peer() {
        crate::contender::peers::check_mode(mode)?;
    }
    ready.insert(contender, job.sampler(kind)?);
    Ok(Answer::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_are_added_to_what_is_there() {
        assert_eq!(tunables(None), "glibc.pthread.rseq=0");
        assert_eq!(
            tunables(Some("glibc.malloc.check=1".to_owned())),
            "glibc.malloc.check=1:glibc.pthread.rseq=0"
        );
    }

    #[test]
    fn a_child_refuses_what_it_cannot_do() {
        let mut ready = HashMap::new();
        let sample = Request::Sample { contender: "cache".to_owned() };
        assert!(matches!(answer_to(sample, PER_CPU, &mut ready), Answer::Refused(_)));
        let job = crate::workload::Table::Pair.jobs(&[64], 1, true).remove(0);
        let prepare = Request::Prepare { job, contender: "cache".to_owned() };
        assert!(matches!(answer_to(prepare, PER_CPU, &mut ready), Answer::Refused(_)));
    }
}
