//! Heads that are linked, because memory for a sheaf is out or the thread has no slot.
//!
//! ```text
//!   waiting[cookie % 2] --passed--> ready
//! ```
//!
//! A head gets its cookie when it is linked, and heads with the same cookie are one list. Two lists
//! are enough: at most one grace period is under way, so a cookie that is taken now is that of the
//! last list or one higher. A list of the same parity with another cookie has passed.

use core::mem::replace;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use super::head::Head;
use super::pressure;
use crate::grace::cookie::Cookie;

/// A linked list of heads, oldest first, which needs no memory of its own.
///
/// # Invariants
/// `first` and `last` are null together; the heads between them are queued, and belong to the list.
#[derive(Debug)]
struct List {
    first: *mut Head,
    last: *mut Head,
    count: usize,
    bytes: usize,
}

// SAFETY: a list owns its heads, which may be used in any thread.
unsafe impl Send for List {}

/// Heads that wait for a cookie.
#[derive(Debug)]
struct Waiting {
    heads: List,
    cookie: Cookie,
}

impl Waiting {
    fn has_passed(&self) -> bool {
        !self.heads.is_empty() && self.cookie.has_passed()
    }
}

/// The linked heads of a shard. Protected by its lock.
#[derive(Debug)]
pub(super) struct Heads {
    /// Heads that wait, by the lowest bit of their cookie.
    waiting: [Waiting; 2],
    /// Heads whose cookie has passed, as far as this was checked.
    ready: List,
}

impl Heads {
    pub(super) const fn new() -> Heads {
        let waiting = [const { Waiting { heads: List::new(), cookie: Cookie::from_bits(0) } }; 2];
        Heads { waiting, ready: List::new() }
    }

    /// Adds a head, and the bytes that it stands for. Returns its cookie, and the number and bytes
    /// of all heads with that cookie.
    ///
    /// # Safety
    /// The head is valid, claimed, and on no list; it belongs to the list afterwards.
    pub(super) unsafe fn push(&mut self, head: *mut Head, bytes: usize) -> (Cookie, usize, usize) {
        let cookie = Cookie::get();
        let waiting = &mut self.waiting[(cookie.to_bits() % 2) as usize];
        if waiting.has_passed() {
            self.ready.append(replace(&mut waiting.heads, List::new()));
        }
        // Heads that are still there have this cookie. If they had another, they would wait longer.
        waiting.cookie = cookie;
        // SAFETY: the same contract.
        unsafe { waiting.heads.push(head, bytes) };
        pressure::note_sealed(1, bytes);
        (cookie, waiting.heads.count, waiting.heads.bytes)
    }

    /// The number of heads, and their bytes.
    pub(super) fn counts(&self) -> (usize, usize) {
        let waiting = self.waiting.iter().map(|waiting| &waiting.heads);
        waiting
            .chain([&self.ready])
            .fold((0, 0), |(heads, bytes), list| (heads + list.count, bytes + list.bytes))
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.waiting.iter().any(Waiting::has_passed)
    }

    /// Takes the oldest head whose cookie has passed, and its share of the bytes of its list.
    pub(super) fn pop_ready(&mut self) -> Option<(*mut Head, usize)> {
        if self.ready.is_empty() {
            let passed = self.waiting.iter_mut().filter(|waiting| waiting.has_passed());
            let oldest = passed.min_by_key(|waiting| waiting.cookie)?;
            self.ready = replace(&mut oldest.heads, List::new());
        }
        let bytes = self.ready.bytes / self.ready.count;
        let head = self.ready.pop()?;
        self.ready.bytes -= bytes;
        Some((head, bytes))
    }
}

impl List {
    const fn new() -> List {
        List { first: null_mut(), last: null_mut(), count: 0, bytes: 0 }
    }

    fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// # Safety
    /// The head is valid, claimed, and on no list; it belongs to the list afterwards.
    unsafe fn push(&mut self, head: *mut Head, bytes: usize) {
        // SAFETY: valid by the contract.
        let next = unsafe { &(*head).next };
        // Relaxed, here and below: only the owner of the list uses its links.
        next.store(null_mut(), Ordering::Relaxed);
        // SAFETY: null, or on the list and so valid.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.store(head, Ordering::Relaxed),
            None => self.first = head,
        }
        self.last = head;
        self.count += 1;
        self.bytes += bytes;
    }

    fn append(&mut self, other: List) {
        // SAFETY: null, or on the list and so valid.
        match unsafe { self.last.as_ref() } {
            // Relaxed: as in `push`.
            Some(last) if !other.is_empty() => last.next.store(other.first, Ordering::Relaxed),
            Some(_) => return,
            None => self.first = other.first,
        }
        self.last = other.last;
        self.count += other.count;
        self.bytes += other.bytes;
    }

    /// Removes the oldest head.
    fn pop(&mut self) -> Option<*mut Head> {
        let head = self.first;
        // SAFETY: null, or on the list and so valid.
        let oldest = unsafe { head.as_ref() }?;
        // Relaxed: as in `push`.
        self.first = oldest.next.load(Ordering::Relaxed);
        if self.first.is_null() {
            self.last = null_mut();
        }
        self.count -= 1;
        Some(head)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/list.rs"]
mod tests;
