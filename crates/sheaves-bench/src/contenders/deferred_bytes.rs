//! Bytes whose free was deferred and that are not free yet, for contenders that cannot tell.
//!
//! Every thread has counts of its own, which others only read, so that counting a free costs two
//! loads, an addition and a store, and shares nothing. All contenders share the counts: each holds
//! [`lock`] for a sample, at the end of which everything is free.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sheaves_history::cpu::Padded;

/// One thread's counts. They are never given back: few threads ever count.
#[derive(Debug, Default)]
struct Counts {
    deferred: AtomicU64,
    freed: AtomicU64,
}

static ALL: Mutex<Vec<&'static Padded<Counts>>> = Mutex::new(Vec::new());
static LOCK: Mutex<()> = Mutex::new(());

thread_local! {
    static OWN: Cell<Option<&'static Padded<Counts>>> = const { Cell::new(None) };
}

/// A contender that takes longer to free everything is broken.
const FREE_MAX: Duration = Duration::from_secs(60);

/// The counts are the caller's until this is dropped.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until nothing is outstanding, by whatever count, and calls `finish` meanwhile. False if
/// that takes too long.
pub(crate) fn wait_until_free(outstanding: impl Fn() -> u64, finish: impl Fn()) -> bool {
    let begin = Instant::now();
    while outstanding() > 0 {
        if begin.elapsed() > FREE_MAX {
            return false;
        }
        finish();
    }
    true
}

fn all() -> MutexGuard<'static, Vec<&'static Padded<Counts>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn own() -> &'static Counts {
    &OWN.get().unwrap_or_else(open).0
}

#[cold]
#[inline(never)]
fn open() -> &'static Padded<Counts> {
    let counts: &'static Padded<Counts> = Box::leak(Box::default());
    all().push(counts);
    OWN.set(Some(counts));
    counts
}

#[inline]
pub(crate) fn add_deferred(bytes: usize) {
    add(&own().deferred, bytes);
}

#[inline]
pub(crate) fn add_freed(bytes: usize) {
    add(&own().freed, bytes);
}

#[inline]
fn add(count: &AtomicU64, bytes: usize) {
    // Relaxed: this thread alone writes it.
    let before = count.load(Ordering::Relaxed);
    // Release: partner is the load in `outstanding`. A thread that sees the count sees the free.
    count.store(before + bytes as u64, Ordering::Release);
}

/// Bytes that are deferred and not free yet.
pub(crate) fn outstanding() -> u64 {
    let all = all();
    // Acquire: partner is the store in `add`. What is freed is read first, so that what is both
    // deferred and freed meanwhile does not make the difference negative.
    let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
        all.iter().map(|counts| of(&counts.0).load(Ordering::Acquire)).sum()
    };
    let freed = sum(|counts| &counts.freed);
    let deferred = sum(|counts| &counts.deferred);
    deferred - freed
}

#[cfg(test)]
#[path = "../../tests/unit/contenders_deferred_bytes.rs"]
mod tests;
