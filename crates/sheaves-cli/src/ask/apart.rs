//! Asks processes in threads of their own, which are left behind when they take too long.
//!
//! To read a file in `/proc` of a process, or one that it names, may take as long as that process
//! wants: it may hold the lock of its mappings, or serve the file's system itself.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Processes that are asked at the same time. Each answer has up to 4 MiB.
const AT_ONCE: usize = 8;
/// Enough for what is done there; most of a thread's usual stack would only be reserved.
const STACK_BYTES: usize = 512 << 10;
/// Threads that may be left behind.
const LATE_MAX: usize = 64;

/// Processes whose thread has not ended.
static ASKED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn asked<T>(change: impl FnOnce(&mut BTreeSet<u32>) -> T) -> T {
    change(&mut ASKED.lock().unwrap_or_else(PoisonError::into_inner))
}

fn builder() -> thread::Builder {
    thread::Builder::new().stack_size(STACK_BYTES)
}

/// Does something in a thread; `None` if that takes longer than `limit`.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = builder().spawn(move || drop(sender.send(act())));
    thread.ok().and_then(|_| receiver.recv_timeout(limit).ok())
}

/// Does something for each process, of some at the same time, and gives `take` what came of it, or
/// `None` of a process for which it has taken longer than `each`. Processes that had no turn in
/// `all` are among those.
pub(crate) fn for_each<T: Send + 'static>(
    pids: Vec<u32>,
    each: Duration,
    all: Duration,
    act: impl Fn(u32) -> T + Send + Sync + 'static,
    mut take: impl FnMut(u32, Option<T>),
) {
    let (sender, receiver) = mpsc::channel();
    let (act, end) = (Arc::new(act), Instant::now() + all);
    let mut waiting = pids.into_iter();
    let mut under_way = BTreeMap::new();
    loop {
        while under_way.len() < AT_ONCE
            && Instant::now() < end
            && let Some(pid) = waiting.next()
        {
            let (act, sender) = (Arc::clone(&act), sender.clone());
            let work = move || {
                let result = act(pid);
                asked(|asked| asked.remove(&pid));
                // Nothing takes it any more if it is late.
                let _ = sender.send((pid, result));
            };
            let is_free = asked(|asked| asked.len() < LATE_MAX + AT_ONCE && asked.insert(pid));
            if is_free && builder().spawn(work).is_ok() {
                under_way.insert(pid, Instant::now() + each);
                continue;
            }
            if is_free {
                asked(|asked| asked.remove(&pid));
            }
            take(pid, None);
        }
        let Some(next) = under_way.values().min().map(|at| end.min(*at)) else { break };
        match receiver.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok((pid, result)) => {
                if under_way.remove(&pid).is_some() {
                    take(pid, Some(result));
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let now = Instant::now();
                let late = |at: &Instant| *at <= now || end <= now;
                let late: Vec<_> =
                    under_way.iter().filter(|(_, at)| late(at)).map(|(pid, _)| *pid).collect();
                for pid in late {
                    under_way.remove(&pid);
                    take(pid, None);
                }
            }
        }
    }
    waiting.for_each(|pid| take(pid, None));
}

#[cfg(test)]
#[path = "../../tests/unit/ask_apart.rs"]
mod tests;
