//! Resident memory of another process over time.

use core::time::Duration;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::{Value, json};

use super::resident_in;

const EVERY: Duration = Duration::from_millis(50);
const FIELD: &str = "resident";

/// A thread that reads the memory of a process until it is told to end.
pub(crate) struct Trace {
    end: Sender<()>,
    thread: JoinHandle<Vec<(f64, f64)>>,
}

impl Trace {
    pub(crate) fn start(process: u32) -> Trace {
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let (statm, start) = (format!("/proc/{process}/statm"), Instant::now());
            let mut points = Vec::new();
            loop {
                let bytes = resident_in(&statm).map(|bytes| bytes as f64);
                points.extend(bytes.map(|bytes| (start.elapsed().as_secs_f64(), bytes)));
                if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    return points;
                }
            }
        });
        Trace { end, thread }
    }

    /// The points so far, as the `work` of a figure.
    pub(crate) fn end(self) -> Value {
        drop(self.end);
        json!({ FIELD: self.thread.join().unwrap_or_default() })
    }
}

/// Seconds and bytes above the first point, if the work of a figure has them.
pub(crate) fn trace_of(work: &Value) -> Option<Vec<(f64, f64)>> {
    let points: Vec<(f64, f64)> = serde_json::from_value(work.get(FIELD)?.clone()).ok()?;
    let (_, start) = *points.first()?;
    Some(points.into_iter().map(|(second, bytes)| (second, (bytes - start).max(0.0))).collect())
}

#[cfg(test)]
#[path = "../../tests/unit/harness_trace.rs"]
mod tests;
