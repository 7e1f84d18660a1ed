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

use crate::ask::named;
use crate::ask::sample::{All, Sample};
use crate::command_line::{Sort, TopOptions};
use crate::output::{print, print_while_read, wait};
use crate::refusal::Refusal;
use table::Table;

pub(crate) fn top(options: &TopOptions) -> Result<ExitCode, Refusal> {
    let sort = options.sort.unwrap_or(Sort::Objects);
    let pid = options.process.as_deref().map(named::one).transpose()?;
    if !options.once {
        let period = Duration::from_secs_f64(options.interval.max(0.1));
        return if options.json {
            print_lines(pid, period)
        } else {
            screen::show(pid, period, sort)
        };
    }
    if options.json {
        return print(&json(pid)?);
    }
    let table = match pid {
        None => Table::of_processes(&All::ask(), &[]),
        Some(pid) => Table::of_caches(&Sample::take(pid)?, &[], sort),
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
fn json(pid: Option<u32>) -> Result<String, Refusal> {
    let text = match pid {
        None => serde_json::to_string(&All::ask()),
        Some(pid) => {
            let mut others = Sample::take(pid)?;
            let first = others.remove(0);
            serde_json::to_string(&Process { first, others })
        }
    };
    let text = text.map_err(|error| Refusal::output(format!("cannot write JSON: {error}")))?;
    Ok(text + "\n")
}

/// A line of JSON in each period, until the process ends or nothing reads the lines.
fn print_lines(pid: Option<u32>, period: Duration) -> Result<ExitCode, Refusal> {
    while print_while_read(&json(pid)?)? && wait(period) {}
    Ok(ExitCode::SUCCESS)
}
