//! `sheaves export`: statistics of running processes as OpenMetrics, for Prometheus.
//!
//! Without `--listen` they are printed once; with it, a small server has them at `/metrics`. The
//! processes are asked anew at each scrape.

mod metrics;

use alloc::collections::BTreeSet;
use std::process::ExitCode;

use tiny_http::{Header, Request, Response, Server};

use crate::ask::process::Process;
use crate::ask::sample::{All, Sample};
use crate::command_line::ExportOptions;
use crate::output::print;
use crate::refusal::Refusal;

const CONTENT_TYPE: &[u8] = b"application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn export(options: &ExportOptions) -> Result<ExitCode, Refusal> {
    match &options.listen {
        None => print(&metrics::encode(take(&options.processes)?)),
        Some(address) => serve(address, &options.processes),
    }
}

/// Asks the processes that are named by their numbers or names; all if there are none.
fn take(wanted: &[String]) -> Result<All, Refusal> {
    if wanted.is_empty() {
        return Ok(All::ask());
    }
    let all: Vec<_> = Process::others().into_iter().filter_map(Process::read).collect();
    let mut pids = BTreeSet::new();
    for word in wanted {
        match word.parse::<u32>() {
            Ok(pid) => pids.extend([pid]),
            Err(_) => {
                let named = all.iter().filter(|process| process.name == *word);
                pids.extend(named.map(|process| process.pid));
            }
        }
    }
    // One that is named alone has more time, and says why it does not answer.
    if let ([word], Some(pid)) = (wanted, pids.first())
        && word.parse() == Ok(*pid)
    {
        return Ok(All { samples: Sample::take(*pid)?, silent: Vec::new() });
    }
    let answers = All::ask_each(pids.into_iter().collect());
    if answers.samples.is_empty() && answers.silent.is_empty() {
        let line = format!("no process that answers has the name {}", wanted.join(" or "));
        return Err(Refusal::no_process(line));
    }
    Ok(answers)
}

/// Serves until it is ended by a signal.
fn serve(address: &str, wanted: &[String]) -> Result<ExitCode, Refusal> {
    let refused = |error| Refusal::unavailable(format!("cannot listen on {address}: {error}"));
    let server = Server::http(address).map_err(refused)?;
    eprintln!("sheaves: http://{}/metrics", server.server_addr());
    loop {
        let request = server.recv().map_err(|error| {
            Refusal::output(format!("cannot take a request on {address}: {error}"))
        })?;
        answer(request, wanted);
    }
}

/// Answers a request. What goes wrong with the connection is the client's matter.
fn answer(request: Request, wanted: &[String]) {
    let path = request.url().split('?').next().unwrap_or_default();
    let _ = if path != "/metrics" {
        let text = "the metrics are at /metrics\n";
        request.respond(Response::from_string(text).with_status_code(404))
    } else {
        match take(wanted) {
            Ok(samples) => {
                let mut response = Response::from_string(metrics::encode(samples));
                if let Ok(header) = Header::from_bytes("Content-Type", CONTENT_TYPE) {
                    response.add_header(header);
                }
                request.respond(response)
            }
            Err(refusal) => {
                let text = format!("{}\n", refusal.line);
                request.respond(Response::from_string(text).with_status_code(503))
            }
        }
    };
}
