//! Runs the jobs of a test several at a time: they wait more than they compute.

use std::sync::Mutex;

/// Runs each job, in order, `at_once` at a time; returns the names of those that failed, as `run`
/// tells by an error.
pub(crate) fn failed<J: Send>(
    at_once: usize,
    jobs: impl IntoIterator<Item = J, IntoIter: Send>,
    run: impl Fn(J) -> Result<(), String> + Sync,
) -> Vec<String> {
    let (rest, failed) = (Mutex::new(jobs.into_iter()), Mutex::new(Vec::new()));
    let take_and_run = || {
        loop {
            let Some(job) = rest.lock().unwrap().next() else { return };
            if let Err(name) = run(job) {
                failed.lock().unwrap().push(name);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(take_and_run);
        }
    });
    failed.into_inner().unwrap()
}
