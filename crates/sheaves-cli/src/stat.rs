//! `sheaves stat`: the statistics of a running process, once: what it prints at exit, and its RCU.

use std::process::ExitCode;

use serde_json::{Map, Value};
use sheaves_control::layout::{STATISTICS, STATISTICS_TEXT};

use crate::ask::sample::Sample;
use crate::ask::{Asked, each, named};
use crate::command_line::StatOptions;
use crate::output::{print, say};
use crate::refusal::Refusal;
use crate::top::table::rcu_lines;

pub(crate) fn stat(options: &StatOptions) -> Result<ExitCode, Refusal> {
    let ask = |asked: &mut Asked| match options.json {
        true => asked.ask_json_text(STATISTICS, 0),
        false => {
            let text = asked.ask(STATISTICS_TEXT, 0)?;
            match Sample::of(asked).map(|sample| rcu_lines(&sample, None)) {
                Ok([periods, readers]) => Ok(format!("{text}{periods}\n{readers}\n")),
                Err(refusal) => {
                    say(&refusal.line);
                    Ok(text)
                }
            }
        }
    };
    let pid = named::one(&options.process)?;
    let answers = each(Asked::attach(pid)?, |mut asked| {
        Ok((asked.process.object.clone(), ask(&mut asked)?))
    })?;
    match &answers[..] {
        [(None, text)] => print(text),
        _ if options.json => print(&joined(answers)?),
        _ => {
            let text = |(object, text): &(Option<String>, String)| match object {
                None => text.clone(),
                Some(object) => format!("{object}:\n{text}"),
            };
            print(&answers.iter().map(text).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// One object for several heaps: that of the first, with an array `others`.
fn joined(answers: Vec<(Option<String>, String)>) -> Result<String, Refusal> {
    let parse = |(name, text): (Option<String>, String)| {
        let mut heap: Map<String, Value> = serde_json::from_str(&text)?;
        heap.insert("object".to_owned(), name.into());
        Ok(heap)
    };
    let join = |mut heaps: Vec<Map<String, Value>>| {
        let others = heaps.split_off(1.min(heaps.len()));
        let mut first = heaps.pop().unwrap_or_default();
        first.insert("others".to_owned(), others.into());
        serde_json::to_string(&first)
    };
    let heaps: Result<_, serde_json::Error> = answers.into_iter().map(parse).collect();
    let text = heaps.and_then(join);
    text.map(|text| text + "\n").map_err(|error| Refusal::protocol(format!("an answer: {error}")))
}
