//! `sheaves top`: running processes on Sheaves, or the caches of one, again and again.
//!
//! `table` makes the tables, `samples` keeps what they are made of, `screen` shows them on a
//! terminal.

mod samples;
mod screen;
pub(crate) mod table;

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;

use serde::Serialize;

use crate::ask::sample::{All, Sample};
use crate::ask::{Asked, named};
use crate::command_line::{Sort, TopOptions};
use crate::output::{print, print_while_read, wait};
use crate::refusal::Refusal;
use table::Table;

pub(crate) fn top(options: &TopOptions) -> Result<ExitCode, Refusal> {
    let sort = options.sort.unwrap_or(Sort::Objects);
    let pid = options.process.as_deref().map(named::one).transpose()?;
    let period = Duration::from_secs_f64(options.interval.max(0.1));
    if !options.once && !options.json {
        return screen::show(pid, period, sort);
    }
    // Held to the end: another process may get its number.
    let mut asked = pid.map(Asked::attach).transpose()?;
    if !options.once {
        return print_lines(asked, period);
    }
    if options.json {
        return print(&json(asked.as_mut())?);
    }
    let table = match asked {
        None => Table::of_processes(&All::ask(), &[]),
        Some(mut asked) => Table::of_caches(&Sample::of_each(&mut asked)?, &[], sort),
    };
    let mut text = String::new();
    // A string takes everything.
    let _ = write!(text, "{table}");
    print(&text)
}

/// A process: its heap, and others where it has several.
#[derive(Serialize)]
struct Process {
    #[serde(flatten)]
    first: Sample,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<Sample>,
}

/// One JSON object for a process, or an array of those of all heaps of all processes,
/// and of processes that do not answer.
fn json(asked: Option<&mut Vec<Asked>>) -> Result<String, Refusal> {
    let text = match asked {
        None => serde_json::to_string(&All::ask()),
        Some(asked) => {
            let mut others = Sample::of_each(asked)?;
            let first = others.remove(0);
            serde_json::to_string(&Process { first, others })
        }
    };
    let text = text.map_err(|error| Refusal::output(format!("cannot write JSON: {error}")))?;
    Ok(text + "\n")
}

/// A line of JSON in each period, until the process ends or nothing reads the lines.
fn print_lines(mut asked: Option<Vec<Asked>>, period: Duration) -> Result<ExitCode, Refusal> {
    while print_while_read(&json(asked.as_mut())?)? && wait(period) {}
    Ok(ExitCode::SUCCESS)
}
