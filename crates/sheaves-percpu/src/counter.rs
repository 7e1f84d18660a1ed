//! Counters that many threads add to and few read.

use core::fmt;
use core::sync::atomic::{AtomicI64, Ordering};

use sheaves_sys::lock::Lock;

use crate::area::{self, rows};
use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::memory::access::retry;
use crate::memory::state::{Lazy, Shape};
use crate::slots;

/// Held while a slot's share goes to the total, and while somebody sums up, so that no sum misses
/// what is on its way. Taken before the memory lock, in a fork only.
pub(crate) static FOLDING: Lock<()> = Lock::new(());

/// How often a share is tried to be taken before the addition goes to the total by itself.
const ATTEMPTS: u32 = 8;

/// A sum to which threads add without atomic instructions and without sharing cache lines.
///
/// ```
/// use sheaves_percpu::Counter;
///
/// static REQUESTS: Counter = Counter::new();
///
/// REQUESTS.add(2);
/// REQUESTS.sub(1);
/// assert_eq!(REQUESTS.sum(), 1);
/// ```
///
/// It may be a `static` or part of something; the first addition takes 8 bytes in every slot, and
/// dropping it gives them back. Where there is no memory it is one atomic number.
///
/// Each slot has a share, of at most 2<sup>`BATCH_BITS`</sup> in either direction; what goes
/// beyond is moved to the total. So the total alone, [`Counter::approximate`], is never far off.
/// Smaller batches are more exact and cost an atomic instruction more often. The largest have 30
/// bits.
///
/// Additions never wait, and after the first are async-signal-safe. After a fork parent and child
/// count on their own. All arithmetic wraps.
///
/// # Invariants
/// The count is `total` plus the shares of all slots. An addition that would make a share larger
/// declines.
///
/// | state | written by | when |
/// |---|---|---|
/// | share of a slot | transactions on that slot | addition; to 0 when it is moved |
/// | `total` | anybody, by addition | a share is moved; an addition finds no slot |
pub struct Counter<const BATCH_BITS: u32 = 16> {
    shares: Lazy,
    total: AtomicI64,
}

impl Counter {
    /// A counter at 0, with batches of 65536.
    #[must_use]
    pub const fn new() -> Counter {
        Counter::with_batch()
    }
}

impl<const BATCH_BITS: u32> Counter<BATCH_BITS> {
    /// A counter at 0, with batches of a size of one's own.
    #[must_use]
    pub const fn with_batch() -> Counter<BATCH_BITS> {
        const { assert!(BATCH_BITS <= transactions::BITS_MAX) };
        Counter { shares: Lazy::new(), total: AtomicI64::new(0) }
    }

    /// Adds. One transaction; see the type for what it costs beyond that.
    #[inline]
    pub fn add(&self, amount: i64) {
        // SAFETY: the word is the counter's own and out as long as it exists.
        let add = |place| unsafe { transactions::add_near::<BATCH_BITS>(place, amount as usize) };
        if self.shares.near().map(add) != Some(Outcome::Done) {
            self.add_slow(amount);
        }
    }

    /// Adds 1. In a loop some processors, Intel's since Golden Cove, are several times as fast as
    /// with [`Counter::add`], whose amount they do not know in advance.
    #[inline]
    pub fn increment(&self) {
        self.add_const::<1>();
    }

    /// Subtracts 1, as [`Counter::increment`] adds it.
    #[inline]
    pub fn decrement(&self) {
        self.add_const::<-1>();
    }

    #[inline(always)]
    fn add_const<const AMOUNT: i32>(&self) {
        // SAFETY: as in `add`.
        let add = |place| unsafe { transactions::add_near_const::<BATCH_BITS, AMOUNT>(place) };
        if self.shares.near().map(add) != Some(Outcome::Done) {
            self.add_slow(AMOUNT.into());
        }
    }

    /// Subtracts.
    #[inline]
    pub fn sub(&self, amount: i64) {
        self.add(amount.wrapping_neg());
    }

    /// The sum over all slots.
    ///
    /// What was added before is in it, exactly. Of what is added meanwhile some may be. Reads one
    /// cache line for each slot that threads use. May sleep on a lock that is held for moments; not
    /// for signal handlers.
    #[must_use]
    pub fn sum(&self) -> i64 {
        let _folding = FOLDING.lock();
        let mut sum = self.approximate();
        if let Some(offset) = self.shares.get() {
            for slot in slots::installed_indexes() {
                let word = area::word_at(rows::row(slot) + offset);
                // Relaxed: additions that happened before this call are in it, and no others need
                // to be.
                sum = sum.wrapping_add(word.load(Ordering::Relaxed) as i64);
            }
        }
        sum
    }

    /// The sum without the slots' shares: one load. It differs from [`Counter::sum`] by no more
    /// than [`Counter::error_bound`].
    #[inline]
    #[must_use]
    pub fn approximate(&self) -> i64 {
        // Relaxed: a number, which promises nothing about other memory.
        self.total.load(Ordering::Relaxed)
    }

    /// How far [`Counter::approximate`] can be off: a batch for each slot that threads have used.
    #[must_use]
    pub fn error_bound(&self) -> u64 {
        (slots::installed_indexes().count() as u64) << BATCH_BITS
    }

    #[cold]
    #[inline(never)]
    fn add_slow(&self, amount: i64) {
        let offset = self.shares.get().or_else(|| self.shares.make(Shape::WORD));
        if let Some(offset) = offset {
            let share = amount as usize;
            // SAFETY: the word is the counter's own and out as long as it exists.
            match retry(|| unsafe { slow::add_bounded::<BATCH_BITS>(offset, share) }) {
                Some(Outcome::Done) => return,
                Some(_) => self.fold(offset),
                None => {}
            }
        }
        // Relaxed: a number, which promises nothing about other memory.
        self.total.fetch_add(amount, Ordering::Relaxed);
    }

    /// Moves the current slot's share to the total. Does nothing where it would have to wait.
    fn fold(&self, offset: usize) {
        let Some(_folding) = FOLDING.try_lock() else { return };
        for _ in 0..ATTEMPTS {
            let Some(row) = transactions::current_row() else { return };
            // Relaxed: compared again by the transaction below.
            let word = area::word_at(row + offset).load(Ordering::Relaxed);
            // SAFETY: the word is the counter's own and out as long as it exists.
            if unsafe { slow::cmp_store(offset, word, 0) } == Outcome::Done {
                // Relaxed: a number; whoever sums up holds the lock.
                self.total.fetch_add(word as i64, Ordering::Relaxed);
                return;
            }
        }
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

impl<const BATCH_BITS: u32> Drop for Counter<BATCH_BITS> {
    fn drop(&mut self) {
        // SAFETY: made with this shape; nobody adds any more.
        unsafe { self.shares.end(Shape::WORD) };
    }
}

impl<const BATCH_BITS: u32> fmt::Debug for Counter<BATCH_BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("approximate", &self.approximate()).finish()
    }
}
