//! `sheaves export`: statistics of running processes as OpenMetrics, for Prometheus.
//!
//! Without `--listen` they are printed once; with it, a small server has them at `/metrics`. The
//! processes are asked anew at each scrape.

mod metrics;

use std::process::ExitCode;

use tiny_http::{Header, Request, Response, Server};

use crate::ask::process::Process;
use crate::ask::sample::Sample;
use crate::command_line::ExportOptions;
use crate::refusal::Refusal;
use crate::stat::print;

const CONTENT_TYPE: &[u8] = b"application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn export(options: &ExportOptions) -> Result<ExitCode, Refusal> {
    match &options.listen {
        None => print(&metrics::encode(take(&options.processes)?)),
        Some(address) => serve(address, &options.processes),
    }
}

/// Asks the processes that are named by their numbers or names; all if there are none.
fn take(wanted: &[String]) -> Result<Vec<Sample>, Refusal> {
    if wanted.is_empty() {
        return Ok(Sample::all());
    }
    let mut samples: Vec<Sample> = Vec::new();
    let all = Process::all();
    for word in wanted {
        if let Ok(pid) = word.parse() {
            samples.extend(Sample::take(pid)?);
            continue;
        }
        let named = all.iter().filter(|process| process.name == *word);
        let found: Vec<_> =
            named.filter_map(|process| Sample::take(process.pid).ok()).flatten().collect();
        if found.is_empty() {
            let line = format!("no process that answers has the name {word}");
            return Err(Refusal::no_process(line));
        }
        samples.extend(found);
    }
    let key = |sample: &Sample| (sample.process.pid, sample.object.clone());
    samples.sort_by_key(key);
    samples.dedup_by_key(|sample| key(sample));
    Ok(samples)
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
