//! The threads of a run.

use core::time::Duration;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// A thread that has not ended by this time after the end of the run is considered stuck.
const END_SECONDS: u64 = 60;

/// Threads that were started and must end.
pub(crate) struct Crew(Vec<JoinHandle<()>>);

impl Crew {
    pub(crate) fn new() -> Crew {
        Crew(Vec::new())
    }

    /// Starts several threads with the same function.
    pub(crate) fn start(
        &mut self,
        name: &str,
        count: usize,
        body: impl Fn() + Send + Sync + 'static,
    ) {
        let body = Arc::new(body);
        for _ in 0..count {
            let body = Arc::clone(&body);
            let thread = std::thread::Builder::new().name(name.into()).spawn(move || body());
            self.0.push(thread.expect("a thread"));
        }
    }

    /// Waits for all threads; returns the names of those that do not end, or that panicked.
    pub(crate) fn end(mut self) -> Vec<String> {
        let name = |thread: &JoinHandle<()>| thread.thread().name().unwrap_or("?").to_owned();
        let begin = Instant::now();
        let mut failed = Vec::new();
        while !self.0.is_empty() && begin.elapsed().as_secs() < END_SECONDS {
            std::thread::sleep(Duration::from_millis(5));
            for ended in self.0.extract_if(.., |thread| thread.is_finished()) {
                let name = name(&ended);
                if ended.join().is_err() {
                    failed.push(format!("{name}, which panicked"));
                }
            }
        }
        failed.extend(self.0.iter().map(name));
        failed
    }
}
