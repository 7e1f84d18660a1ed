//! Contenders of the table `counter`: everything that many threads can add to.

use core::cell::Cell;
use core::ptr::null;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sheaves_history::cpu::Padded;

/// A number that threads add to and that can be summed up at any time.
///
/// A sum has what was added before it, exactly, and any part of what is added meanwhile.
pub(crate) trait Count: Send + Sync + 'static {
    fn add(&self, amount: u64);

    #[inline]
    fn increment(&self) {
        self.add(1);
    }

    fn sum(&self) -> u64;
}

/// `counter`: the counter of Sheaves, on the slot of the current CPU.
impl Count for sheaves::Counter {
    #[inline]
    fn add(&self, amount: u64) {
        self.add(amount.cast_signed());
    }

    #[inline]
    fn increment(&self) {
        self.increment();
    }

    fn sum(&self) -> u64 {
        self.sum().cast_unsigned()
    }
}

/// `atomic`: one number for all.
impl Count for Padded<AtomicU64> {
    #[inline]
    fn add(&self, amount: u64) {
        // Relaxed, everywhere here: a number, which promises nothing about other memory.
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Shards of `sharded` at the least: a few for each thread, so that two rarely meet.
const SHARDS_MIN: usize = 64;

/// `sharded`: atomic numbers far enough apart, of which each thread takes one by a hash.
pub(crate) struct Sharded {
    /// A power of two of them.
    shards: Box<[Padded<AtomicU64>]>,
}

static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The number of a thread that has none yet.
const UNNUMBERED: usize = usize::MAX;

thread_local! {
    static HASH: Cell<usize> = const { Cell::new(UNNUMBERED) };
}

#[cold]
#[inline(never)]
fn hash_slow() -> usize {
    let number = THREADS.fetch_add(1, Ordering::Relaxed);
    // Fibonacci hashing; the upper half of the product depends on all of the number.
    let hash = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 32;
    HASH.set(hash);
    hash
}

impl Sharded {
    pub(crate) fn new(threads: usize) -> Sharded {
        let count = threads.max(SHARDS_MIN).next_power_of_two();
        Sharded { shards: (0..count).map(|_| Padded::default()).collect() }
    }
}

impl Count for Sharded {
    #[inline]
    fn add(&self, amount: u64) {
        let known = HASH.get();
        let hash = if known == UNNUMBERED { hash_slow() } else { known };
        self.shards[hash & (self.shards.len() - 1)].0.fetch_add(amount, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }
}

/// `thread-local`: a number for each thread, found again through a registry.
///
/// There is one for the whole process. A thread's number stays when the thread ends, as its share
/// must; so memory grows with the threads that ever were.
pub(crate) struct ThreadLocal;

static REGISTRY: Mutex<Vec<&'static Padded<AtomicU64>>> = Mutex::new(Vec::new());

thread_local! {
    static SHARE: Cell<*const Padded<AtomicU64>> = const { Cell::new(null()) };
}

#[cold]
#[inline(never)]
fn share_slow() -> &'static Padded<AtomicU64> {
    let share: &'static Padded<AtomicU64> = Box::leak(Box::default());
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner).push(share);
    SHARE.set(share);
    share
}

impl Count for ThreadLocal {
    #[inline]
    fn add(&self, amount: u64) {
        // SAFETY: null, or a share of this thread, which is never freed.
        let share = unsafe { SHARE.get().as_ref() }.unwrap_or_else(share_slow);
        // No other thread writes to it, so a load and a store do.
        let sum = share.0.load(Ordering::Relaxed).wrapping_add(amount);
        share.0.store(sum, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        registry.iter().map(|share| share.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_counter_contenders.rs"]
mod tests;
