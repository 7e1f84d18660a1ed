//! Which thread a record belongs to: one word, so that a record is taken back only once.
//!
//! Each time a record is taken it gets a new *stamp*. A thread that takes a record back reads the
//! word, asks the kernel whether the thread in it is gone, and exchanges the word for 0. Whatever
//! happens to the record meanwhile changes the word, even if the kernel reuses the thread's number.
//! So one of several such threads succeeds, and only if the record is unchanged. Modelled in
//! `tests/protocols/owner.rs`.
//!
//! | bits | what |
//! |---|---|
//! | 24..64 | stamp, never 0 |
//! | 23 | held: the thread has ended, or is about to, in a section that it has left open |
//! | 0..23 | the thread's number (`gettid`), 0 where it is not known |
//!
//! | value | meaning | transitions |
//! |---|---|---|
//! | 0 | free, or on its way from or to the stack of free ones | -> in use, by its thread |
//! | stamp, number | in use | -> 0 by its thread, or by a thread that finds it gone |
//! | stamp, number | in use | -> held, by its thread at its end, or by one that finds it gone |
//! | stamp, held, number | in use | -> 0, as above, if the section has ended after all |

use super::machine::{AtomicU64, Ordering};

/// The owner of a record. Zero is valid: the record is free.
#[repr(transparent)]
pub(crate) struct Owner(pub(super) AtomicU64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(pub(super) u64);

/// The bits of a thread's number. The kernel's numbers are below 2^22.
const THREAD: u64 = HELD - 1;
const HELD: u64 = 1 << 23;
pub(super) const STAMP_SHIFT: u32 = 24;
/// Half the number of stamps, which wrap.
const STAMPS_HALF: u64 = 1 << (u64::BITS - STAMP_SHIFT - 1);

impl Owner {
    pub(crate) fn load(&self) -> Seen {
        // Acquire pairs with the Release in `take`: a thread that is read here was alive. [O1]
        Seen(self.0.load(Ordering::Acquire))
    }

    /// Takes a free record that only the caller has. The stamp is unique, and not 0.
    pub(crate) fn take(&self, stamp: u64, thread: i32) {
        // Where the kernel's answer is not usable, no thread is named, so that none is found gone.
        let thread = u64::try_from(thread).ok().filter(|number| *number <= THREAD).unwrap_or(0);
        // Release pairs with the Acquire in `load`: the thread was alive before. [O1]
        self.0.store(stamp << STAMP_SHIFT | thread, Ordering::Release);
    }

    /// Frees a record after it was `seen`, for its thread or one that finds that thread gone. True
    /// for one caller, which then acts as the record's thread.
    pub(crate) fn take_back(&self, seen: Seen) -> bool {
        self.change(seen, 0)
    }

    /// Records that the thread that was `seen` has left a section open. True if that is new.
    pub(crate) fn hold(&self, seen: Seen) -> bool {
        !seen.is_held() && self.change(seen, seen.0 | HELD)
    }

    fn change(&self, seen: Seen, new: u64) -> bool {
        // Relaxed, both: nothing is published, and the stamp shows that the record is unchanged.
        self.0.compare_exchange(seen.0, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Seen {
    /// The record is free, or on its way.
    pub(crate) fn is_free(self) -> bool {
        self.0 == 0
    }

    /// The number of the thread; 0 if there is none, or its number is not known.
    pub(crate) fn thread(self) -> i32 {
        (self.0 & THREAD) as i32
    }

    pub(crate) fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    /// True if this was taken after `other`, by a thread of the same number: then `other` is gone.
    pub(crate) fn follows(self, other: Seen) -> bool {
        let distance = (self.0 >> STAMP_SHIFT).wrapping_sub(other.0 >> STAMP_SHIFT);
        let is_later = (1..STAMPS_HALF).contains(&(distance & (2 * STAMPS_HALF - 1)));
        self.thread() == other.thread() && is_later
    }
}
