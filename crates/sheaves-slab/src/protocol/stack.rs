//! A lock-free stack of sheaves, used by the depot and the pool.
//!
//! A Treiber stack whose head is one 64-bit word:
//!
//! | bits | meaning |
//! |---|---|
//! | 0..24 | number of the top sheaf, 0 for none |
//! | 24..64 | tag: number of changes of the head |
//!
//! The link of a stacked sheaf is in its entry 0, as an odd number, so that it still works as the
//! sentinel of a sheaf that starts there; no object is ever stored in entry 0. A stale reader may
//! read the link of a sheaf that was popped long ago: its memory is still a mapped sheaf, and the
//! tag makes the exchange that follows fail. A wrong success needs the tag to wrap around, 2^40
//! operations, between one load and one exchange: hours.

use super::{AtomicU64, Ordering};

const INDEX_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// Storage of the links of stacked sheaves: the pool, or a model's array.
pub(crate) trait Links {
    /// The link of sheaf `number` as stored by `set_link`.
    fn link(&self, number: u32) -> u32;
    /// Stores the link of sheaf `number`, which the caller owns.
    fn set_link(&self, number: u32, next: u32);
}

/// A stack of sheaf numbers, each from 1 to 2^24 - 1.
///
/// Without `TAGGED` the tag does not change: the broken variant that the model must catch.
#[derive(Debug)]
pub(crate) struct Stack<const TAGGED: bool = true> {
    pub(super) head: AtomicU64,
}

impl<const TAGGED: bool> Stack<TAGGED> {
    /// Puts a sheaf that the caller owns on the stack.
    pub(crate) fn push(&self, links: &impl Links, number: u32) {
        debug_assert!(number != 0 && u64::from(number) <= INDEX_MASK);
        // Relaxed: only the exchange below decides.
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            links.set_link(number, (head & INDEX_MASK) as u32);
            let new = next_tag::<TAGGED>(head) | u64::from(number);
            // Release pairs with the Acquire in `pop`: publishes the sheaf's contents.
            // Relaxed on failure: the loop tries again.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    /// Takes the top sheaf; the caller owns it.
    pub(crate) fn pop(&self, links: &impl Links) -> Option<u32> {
        // Acquire pairs with the Release in `push`: the link of the top sheaf is visible.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let number = (head & INDEX_MASK) as u32;
            if number == 0 {
                return None;
            }
            let new = next_tag::<TAGGED>(head) | u64::from(links.link(number));
            // Acquire pairs with the Release in `push` for the contents of the sheaf; also on
            // failure, for the link of the next candidate.
            match self.head.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(found) => head = found,
            }
        }
    }
}

/// The head's tag plus one, with number 0.
const fn next_tag<const TAGGED: bool>(head: u64) -> u64 {
    let tag = head & !INDEX_MASK;
    if TAGGED { tag.wrapping_add(1 << INDEX_BITS) } else { tag }
}
