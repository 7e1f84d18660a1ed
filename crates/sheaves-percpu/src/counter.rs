//! Per-CPU counters for frequent additions and rare reads; cf. the kernel's `percpu_counter`.

use core::fmt;
use core::sync::atomic::{AtomicI64, Ordering};

use crate::engine::current_row;
use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::fork::FOLDING;
use crate::memory::access::{ATTEMPTS, retry};
use crate::memory::objects::LazyWord;
use crate::word::RowWord;
use crate::{rows, slots};

/// A sum to which threads add without an atomic instruction and without sharing cache lines.
///
/// ```
/// # mod sheaves { pub use sheaves_percpu as percpu; }
/// use sheaves::percpu::Counter;
///
/// static REQUESTS: Counter = Counter::new();
///
/// REQUESTS.add(2);
/// REQUESTS.sub(1);
/// assert_eq!(REQUESTS.sum(), 1);
/// ```
///
/// It may be a `static` or a field. The first addition allocates 8 bytes in every slot, and drop
/// frees them. When memory is out, the counter is one atomic integer.
///
/// Each slot has a share of at most 2<sup>`BATCH_BITS`</sup> in either direction (the batch of
/// `percpu_counter`), with `BATCH_BITS` up to 30; an addition beyond that moves the share to the
/// total, by an atomic instruction. So [`Counter::approximate`] has a bounded error.
///
/// The first addition may sleep on a lock for microseconds. Later ones never wait, and are
/// async-signal-safe. After a fork, parent and
/// child count separately. All arithmetic wraps.
///
/// # Invariants
/// The count is `total` plus the shares of all slots.
///
/// | state | written by | when |
/// |---|---|---|
/// | share of a slot | transactions on that slot | addition; set to 0 when moved to `total` |
/// | `total` | any thread, by atomic addition | a share is moved; an addition finds no slot |
pub struct Counter<const BATCH_BITS: u32 = 16> {
    shares: LazyWord,
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
    /// A counter at 0, with batches of 2<sup>`BATCH_BITS`</sup>.
    #[must_use]
    pub const fn with_batch() -> Counter<BATCH_BITS> {
        const { assert!(BATCH_BITS <= transactions::BITS_MAX) };
        Counter { shares: LazyWord::new(), total: AtomicI64::new(0) }
    }

    /// Adds, in one transaction. The type's documentation says when it costs more.
    #[inline]
    pub fn add(&self, amount: i64) {
        let add = |word| transactions::add_bounded::<BATCH_BITS>(word, amount as usize);
        if self.shares.packed().map(add) != Some(Outcome::Done) {
            self.add_slow(amount);
        }
    }

    /// Adds 1. In a loop, some CPUs (Intel since Golden Cove) run this several times as fast as
    /// [`Counter::add`], whose amount is not a constant.
    #[inline]
    pub fn increment(&self) {
        self.add_const::<1>();
    }

    /// Subtracts 1; as fast as [`Counter::increment`].
    #[inline]
    pub fn decrement(&self) {
        self.add_const::<-1>();
    }

    #[inline(always)]
    fn add_const<const AMOUNT: i32>(&self) {
        let add = transactions::add_bounded_const::<BATCH_BITS, AMOUNT>;
        if self.shares.packed().map(add) != Some(Outcome::Done) {
            self.add_slow(AMOUNT.into());
        }
    }

    /// Subtracts; see [`Counter::add`].
    #[inline]
    pub fn sub(&self, amount: i64) {
        self.add(amount.wrapping_neg());
    }

    /// The sum over all slots.
    ///
    /// The result contains every addition that happened before the call; a concurrent addition may
    /// be missing. Reads one cache line per slot that threads have used. May sleep on a lock that
    /// is held for microseconds. Not async-signal-safe.
    #[must_use]
    pub fn sum(&self) -> i64 {
        let _folding = FOLDING.lock();
        let Some(word) = self.shares.get() else { return self.approximate() };
        // Relaxed: the result contains the additions that happened before this call, and need not
        // contain others.
        let share = |slot| word.in_row(rows::row(slot)).load(Ordering::Relaxed) as i64;
        slots::installed_indexes().map(share).fold(self.approximate(), i64::wrapping_add)
    }

    /// The sum without the slots' shares: one load. The difference to [`Counter::sum`] is at most
    /// [`Counter::error_bound`].
    #[inline]
    #[must_use]
    pub fn approximate(&self) -> i64 {
        // Relaxed: an integer that publishes no other memory.
        self.total.load(Ordering::Relaxed)
    }

    /// Bound of the error of [`Counter::approximate`]: one batch per slot that threads have used,
    /// and one for the share that a thread is moving to the total.
    #[must_use]
    pub fn error_bound(&self) -> u64 {
        (slots::slots_used() as u64 + 1) << BATCH_BITS
    }

    #[cold]
    #[inline(never)]
    fn add_slow(&self, amount: i64) {
        if let Some(word) = self.shares.get().or_else(|| self.shares.make()) {
            match retry(|| slow::add_bounded::<BATCH_BITS>(word, amount as usize)) {
                Some(Outcome::Done) => return,
                Some(_) => self.fold(word),
                None => {}
            }
        }
        // Relaxed: an integer that publishes no other memory.
        self.total.fetch_add(amount, Ordering::Relaxed);
    }

    /// Moves the current slot's share to the total, unless it would have to wait.
    fn fold(&self, word: RowWord) {
        let Some(_folding) = FOLDING.try_lock() else { return };
        for _ in 0..ATTEMPTS {
            let Some(row) = current_row() else { return };
            // Relaxed: the transaction below compares the value again.
            let share = word.in_row(row).load(Ordering::Relaxed);
            if slow::cmp_store(word, share, 0) == Outcome::Done {
                // Relaxed: an integer; a thread that sums holds the lock.
                self.total.fetch_add(share as i64, Ordering::Relaxed);
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
        // SAFETY: no thread adds any more.
        unsafe { self.shares.free() };
    }
}

impl<const BATCH_BITS: u32> fmt::Debug for Counter<BATCH_BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("approximate", &self.approximate()).finish()
    }
}
