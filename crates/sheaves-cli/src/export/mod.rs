//! `sheaves export`: statistics of running processes as OpenMetrics, for Prometheus.
//!
//! Without `--listen` they are printed once; with it, a small server has them at `/metrics`. The
//! processes are asked anew at each scrape.

mod metrics;
mod serve;

use alloc::collections::BTreeSet;
use std::process::ExitCode;

use crate::ask::sample::{All, Sample};
use crate::ask::{Asked, named};
use crate::command_line::ExportOptions;
use crate::output::print;
use crate::refusal::Refusal;

pub(crate) fn export(options: &ExportOptions) -> Result<ExitCode, Refusal> {
    match &options.listen {
        None => print(&metrics::encode(take(&options.processes)?)),
        Some(address) => {
            let wanted = options.processes.clone();
            serve::serve(address, move || take(&wanted).map(metrics::encode))
        }
    }
}

/// Asks the processes that are named by their numbers or names; all if there are none.
fn take(wanted: &[String]) -> Result<All, Refusal> {
    if wanted.is_empty() {
        return Ok(All::ask());
    }
    let mut pids = BTreeSet::new();
    for word in wanted {
        match word.parse::<u32>() {
            Ok(pid) => pids.extend([pid]),
            Err(_) => pids.extend(named::with_name(word).iter().map(|process| process.pid)),
        }
    }
    // One that is named alone has more time, and says why it does not answer.
    if let ([word], Some(pid)) = (wanted, pids.first())
        && word.parse() == Ok(*pid)
    {
        return Ok(All {
            samples: Sample::of_each(&mut Asked::attach(*pid)?)?,
            silent: Vec::new(),
        });
    }
    let answers = All::ask_each(pids.into_iter().collect());
    if answers.samples.is_empty() && answers.silent.is_empty() {
        let line = format!("no process that answers has the name {}", wanted.join(" or "));
        return Err(Refusal::no_process(line));
    }
    Ok(answers)
}
