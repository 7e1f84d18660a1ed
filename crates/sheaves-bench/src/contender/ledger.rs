//! What contenders of `dispose` and `bulk` have deferred and have freed so far, in bytes.
//!
//! Every thread has a line of its own, which others only read, so that counting a free costs two
//! loads, an addition and a store, and shares nothing. There is one ledger for all contenders: they
//! take turns ([`turn`]), and a turn ends with everything free.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sheaves_history::cpu::Padded;

/// One thread's line. Lines are never given back: few threads ever count.
#[derive(Debug, Default)]
struct Line {
    deferred: AtomicU64,
    freed: AtomicU64,
}

static LINES: Mutex<Vec<&'static Padded<Line>>> = Mutex::new(Vec::new());
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    static OWN: Cell<Option<&'static Padded<Line>>> = const { Cell::new(None) };
}

/// A contender that takes longer to free everything is broken.
const SETTLED_MAX: Duration = Duration::from_secs(60);

/// The ledger is the caller's until this is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finishes what a contender has deferred, whose outstanding bytes may be counted otherwise than
/// here. False if that takes too long.
pub(crate) fn settle(outstanding: impl Fn() -> u64, finish: impl Fn()) -> bool {
    let begin = Instant::now();
    while outstanding() > 0 {
        if begin.elapsed() > SETTLED_MAX {
            return false;
        }
        finish();
    }
    true
}

fn lines() -> MutexGuard<'static, Vec<&'static Padded<Line>>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn own() -> &'static Line {
    &OWN.get().unwrap_or_else(open).0
}

#[cold]
#[inline(never)]
fn open() -> &'static Padded<Line> {
    let line: &'static Padded<Line> = Box::leak(Box::default());
    lines().push(line);
    OWN.set(Some(line));
    line
}

/// Called before `bytes` bytes are deferred.
#[inline]
pub(crate) fn add_deferred(bytes: usize) {
    add(&own().deferred, bytes);
}

/// Called when `bytes` bytes are free again.
#[inline]
pub(crate) fn add_freed(bytes: usize) {
    add(&own().freed, bytes);
}

#[inline]
fn add(count: &AtomicU64, bytes: usize) {
    // Relaxed: this thread alone writes it.
    let before = count.load(Ordering::Relaxed);
    // Release: partner is the load in `outstanding`. Who sees the count sees the free.
    count.store(before + bytes as u64, Ordering::Release);
}

/// Bytes that are deferred and not free yet.
pub(crate) fn outstanding() -> u64 {
    let lines = lines();
    // Acquire: partner is the store in `add`. What is freed is read first, so that what is both
    // deferred and freed meanwhile does not make the difference negative.
    let sum = |of: fn(&Line) -> &AtomicU64| -> u64 {
        lines.iter().map(|line| of(&line.0).load(Ordering::Acquire)).sum()
    };
    let freed = sum(|line| &line.freed);
    let deferred = sum(|line| &line.deferred);
    deferred - freed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_thread_defers_another_may_free() {
        let _turn = turn();
        let before = outstanding();
        add_deferred(100);
        assert_eq!(outstanding(), before + 100);
        std::thread::spawn(|| add_freed(60)).join().unwrap();
        assert_eq!(outstanding(), before + 40);
        add_freed(40);
        assert_eq!(outstanding(), before);
    }
}
