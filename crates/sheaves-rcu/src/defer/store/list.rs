//! Heads that are linked, because memory for a sheaf is out or the thread has no slot.
//!
//! A head gets its cookie when it is linked. Cookies ascend, so the heads that have passed are the
//! first ones of the list, and it is enough to count how many heads have which cookie. At most one
//! grace period is under way, so a new cookie is that of the last head or one higher: two counts
//! suffice, as heads of the same parity with another cookie have passed.

use core::mem::take;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use super::head::Head;
use super::pressure;
use crate::grace::cookie::Cookie;

/// The linked heads of a shard, oldest first, which need no memory of their own. Protected by the
/// shard's lock.
///
/// # Invariants
/// `first` and `last` are null together; the heads between them are queued, and belong to the list.
/// The counts add up to their number.
#[derive(Debug)]
pub(crate) struct Heads {
    first: *mut Head,
    last: *mut Head,
    /// Heads that wait, by the lowest bit of their cookie.
    waiting: [Count; 2],
    /// Heads whose cookie has passed, as far as this was checked.
    ready: Count,
}

// SAFETY: a list owns its heads, which may be used in any thread.
unsafe impl Send for Heads {}

/// Some heads of the list, with the same cookie if they wait.
#[derive(Debug)]
struct Count {
    cookie: Cookie,
    heads: usize,
    bytes: usize,
}

impl Heads {
    pub(crate) const fn new() -> Heads {
        const NONE: Count = Count { cookie: Cookie::from_bits(0), heads: 0, bytes: 0 };
        Heads { first: null_mut(), last: null_mut(), waiting: [NONE; 2], ready: NONE }
    }

    /// Adds a head, and the bytes that it stands for. Returns its cookie, and the number and bytes
    /// of all heads with that cookie.
    ///
    /// # Safety
    /// The head is valid, claimed, and on no list; it belongs to the list afterwards.
    pub(crate) unsafe fn push(&mut self, head: *mut Head, bytes: usize) -> (Cookie, usize, usize) {
        let cookie = Cookie::get();
        self.check();
        // Heads that are still there have this cookie. If they had another, they would wait longer.
        let count = &mut self.waiting[(cookie.to_bits() % 2) as usize];
        *count = Count { cookie, heads: count.heads + 1, bytes: count.bytes + bytes };
        // SAFETY: valid by the contract.
        // Relaxed, here and below: only the owner of the list uses its links.
        unsafe { &(*head).next }.store(null_mut(), Ordering::Relaxed);
        // SAFETY: null, or on the list and so valid.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.store(head, Ordering::Relaxed),
            None => self.first = head,
        }
        self.last = head;
        pressure::note_sealed(1, bytes);
        (cookie, count.heads, count.bytes)
    }

    /// Counts as ready what has passed.
    fn check(&mut self) {
        for count in self.waiting.iter_mut().filter(|count| count.cookie.has_passed()) {
            self.ready.heads += take(&mut count.heads);
            self.ready.bytes += take(&mut count.bytes);
        }
    }

    /// Number of heads whose cookie has passed: the first ones.
    pub(crate) fn ready(&mut self) -> usize {
        self.check();
        self.ready.heads
    }

    /// Takes the oldest head if its cookie has passed, and its share of the bytes of those.
    pub(crate) fn pop_ready(&mut self) -> Option<(*mut Head, usize)> {
        self.check();
        let bytes = self.ready.bytes.checked_div(self.ready.heads)?;
        self.ready.heads -= 1;
        self.ready.bytes -= bytes;
        let head = self.first;
        // SAFETY: on the list, which has a head, and so valid.
        // Relaxed: as in `push`.
        self.first = unsafe { &*head }.next.load(Ordering::Relaxed);
        if self.first.is_null() {
            self.last = null_mut();
        }
        Some((head, bytes))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/list.rs"]
mod tests;
