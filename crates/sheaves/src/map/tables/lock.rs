//! The word of a bucket: tags, and in that of a chain's first bucket the lock of the chain.
//!
//! | bits | meaning | changed by |
//! |---|---|---|
//! | 0..48 | a tag for each place: 0 if vacant, else with its highest bit set | the lock's holder |
//! | 48 [`LOCKED`] | a writer holds the lock of the chain | the thread that takes it; the holder |
//! | 49 [`WAITERS`] | a thread sleeps for the lock, if not brief | it, first; the holder, to 0 |
//! | 50 [`MOVED`] | the entries are in the next table, too; no later change | the lock's holder |
//! | 51..64 | generation of the process (its lowest bits) if locked, else 0 | as `LOCKED` |
//!
//! The holder publishes its changes with the store that unlocks.
//!
//! In the child of a fork a lock may be *orphaned*: its holder is not in the process. A thread that
//! waits for it takes it over ([`bits`]). A lock that is 8,192 nested forks old looks as if it were
//! held: it is never taken over then.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use sheaves_sys::futex;
use sheaves_sys::lock::bits;

use super::tags::TAGS;

const LOCKED: u64 = 1 << 48;
const WAITERS: u64 = 1 << 49;
pub(in crate::map) const MOVED: u64 = 1 << 50;
const GENERATION_SHIFT: u32 = 51;

/// Checks of a held lock before a writer sleeps; the lock is held for tens of nanoseconds.
const SPINS: u32 = 100;
/// The longest that a writer sleeps before it looks at the lock again.
const SLEEP_NS: u64 = 100_000_000;
/// The same for brief locks, which wake no sleeper: one sleeps only if the holder was preempted.
const SLEEP_BRIEF_NS: u64 = 50_000;

/// See above.
#[derive(Debug)]
pub(in crate::map) struct Word(AtomicU64);

impl Word {
    #[inline(always)]
    pub(in crate::map) fn load(&self) -> u64 {
        // Acquire pairs with the Release in `publish` and `release`: the entries. [M1]
        self.0.load(Ordering::Acquire)
    }

    /// Publishes entries: of a later bucket, or of one that no other thread reaches yet.
    #[inline(always)]
    pub(in crate::map) fn publish(&self, word: u64) {
        // Release pairs with the Acquire in `load`. [M1]
        self.0.store(word, Ordering::Release);
    }

    /// Takes a free lock; returns the tags. `None` if it is held, or if the entries have moved.
    #[inline(always)]
    pub(in crate::map) fn lock_free(&self) -> Option<u64> {
        // Relaxed: the exchange orders, and compares with this value.
        let word = self.0.load(Ordering::Relaxed);
        (word & !TAGS == 0 && self.exchange(word, word)).then_some(word)
    }

    /// Takes the lock; returns the tags, and whether it was orphaned. `None` if the entries have
    /// moved. `is_brief` is that of [`Word::release`].
    pub(in crate::map) fn lock(&self, is_brief: bool) -> Option<(u64, bool)> {
        let mut spins = 0;
        self.acquire(|word| {
            if spins < SPINS {
                spins += 1;
                core::hint::spin_loop();
            } else {
                self.sleep(word, is_brief);
            }
            true
        })
    }

    /// Takes the lock, without waiting. `None` if another thread keeps it, or if the entries have
    /// moved.
    #[inline]
    pub(in crate::map) fn try_lock(&self) -> Option<(u64, bool)> {
        self.acquire(|_| false)
    }

    /// Calls `wait` with the word while another thread keeps the lock, until that returns false.
    #[inline(always)]
    fn acquire(&self, mut wait: impl FnMut(u64) -> bool) -> Option<(u64, bool)> {
        loop {
            // Relaxed: as in `lock`.
            let word = self.0.load(Ordering::Relaxed);
            if word & MOVED != 0 {
                // Acquire pairs with the Release in `release`: the chain in the next table. [M1]
                fence(Ordering::Acquire);
                return None;
            }
            let is_orphan = word & LOCKED != 0;
            if is_orphan && !is_orphaned(word) {
                if !wait(word) {
                    return None;
                }
                continue;
            }
            if self.exchange(word, word & (TAGS | WAITERS)) {
                return Some((word & TAGS, is_orphan));
            }
        }
    }

    /// Makes the lock with this word that of the calling thread, and keeps these bits of it. A
    /// thread that only waits counts no lock: if it forks, or is found to have forked, that lock
    /// would be taken for one that it holds.
    #[inline(always)]
    fn exchange(&self, word: u64, kept: u64) -> bool {
        let new = kept | LOCKED | (bits::begin() as u64) << GENERATION_SHIFT;
        // Acquire pairs with the Release in `release`. Relaxed on failure: nothing is read. [M1]
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let is_ours = self.0.compare_exchange(word, new, acquire, relaxed).is_ok();
        if !is_ours {
            bits::end();
        }
        is_ours
    }

    /// Sleeps until a lock that is held, as `word` says, is released, or for a while.
    #[cold]
    fn sleep(&self, word: u64, is_brief: bool) {
        if cfg!(miri) {
            // A futex of half a word is a race for it.
            return core::hint::spin_loop();
        }
        let (waiting, most_ns) =
            if is_brief { (word, SLEEP_BRIEF_NS) } else { (word | WAITERS, SLEEP_NS) };
        // Relaxed, both: the flag orders nothing, and the futex compares.
        let relaxed = Ordering::Relaxed;
        if word == waiting || self.0.compare_exchange(word, waiting, relaxed, relaxed).is_ok() {
            // Not for ever: whether the lock is orphaned may be known later only.
            futex::wait_for(self.half(), (waiting >> 32) as u32, most_ns);
        }
    }

    /// Unlocks, and publishes this word. If `is_brief`, no thread is woken, and a store suffices,
    /// which is several times as fast as an exchange.
    #[inline(always)]
    pub(in crate::map) fn release(&self, word: u64, is_brief: bool) {
        if is_brief {
            self.publish(word);
        } else {
            // Release pairs with the Acquire in `load` and `exchange`. [M1]
            let before = self.0.swap(word, Ordering::Release);
            if before & WAITERS != 0 {
                futex::wake_all(self.half());
            }
        }
        bits::end();
    }

    /// The half of the word with the flags, for the futex.
    fn half(&self) -> &AtomicU32 {
        let half = self.0.as_ptr().cast::<AtomicU32>();
        // SAFETY: the address is that of the word, or four bytes above.
        let half = unsafe { half.add(usize::from(cfg!(target_endian = "little"))) };
        // SAFETY: inside the word, which is borrowed; only the kernel reads through it.
        unsafe { &*half }
    }
}

/// True if the holder of a lock is not in this process.
#[cold]
fn is_orphaned(word: u64) -> bool {
    bits::is_orphaned((word >> GENERATION_SHIFT) as usize, (u64::MAX >> GENERATION_SHIFT) as usize)
}
