//! Heads that are linked by themselves, because there is no memory for them or no slot.
//!
//! A list waits as a whole for one cookie, and what comes meanwhile for the next: heads are never
//! added to one that waits.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use super::head::Head;
use super::pressure;
use crate::cookie::Cookie;

/// Heads in a row, oldest first: what needs no memory.
///
/// # Invariants
/// `first` and `last` are null together; the heads between are queued, and belong to the list.
#[derive(Debug)]
struct List {
    first: *mut Head,
    last: *mut Head,
    count: usize,
    bytes: usize,
}

// SAFETY: a list is an owner of heads, which may be used in any thread.
unsafe impl Send for List {}

/// The heads of a shard that are linked. Under its lock.
#[derive(Debug)]
pub(super) struct Linked {
    /// Those without a cookie.
    open: List,
    /// Those that wait, and for what.
    sealed: List,
    cookie: Cookie,
}

impl Linked {
    pub(super) const fn new() -> Linked {
        Linked { open: List::new(), sealed: List::new(), cookie: Cookie::from_bits(0) }
    }

    /// Adds a head, and the bytes for which it stands: how many have no cookie now, and theirs.
    ///
    /// # Safety
    /// The head is valid, claimed, and on no list; it belongs to the list from now on.
    pub(super) unsafe fn push(&mut self, head: *mut Head, bytes: usize) -> (usize, usize) {
        // SAFETY: the same contract.
        unsafe { self.open.push(head, bytes) };
        (self.open.count, self.open.bytes)
    }

    /// Gives the heads that have none a cookie, unless others wait already.
    pub(super) fn seal(&mut self) -> Option<Cookie> {
        if self.open.is_empty() || !self.sealed.is_empty() {
            return None;
        }
        self.sealed = core::mem::replace(&mut self.open, List::new());
        // After the last head came.
        self.cookie = Cookie::get();
        pressure::count(self.sealed.count, self.sealed.bytes);
        Some(self.cookie)
    }

    /// Do some heads have no cookie, because others wait in their place?
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Are there heads whose cookie has passed?
    pub(super) fn has_ready(&self) -> bool {
        !self.sealed.is_empty() && self.cookie.has_passed()
    }

    /// Takes a head whose cookie has passed, and its bytes: those of the list are dealt out evenly,
    /// the rest to the last one.
    pub(super) fn pop_ready(&mut self) -> Option<(*mut Head, usize)> {
        if !self.has_ready() {
            return None;
        }
        let bytes = self.sealed.bytes / self.sealed.count;
        let head = self.sealed.pop()?;
        self.sealed.bytes -= bytes;
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
    /// The head is valid, claimed, and on no list; it belongs to the list from now on.
    unsafe fn push(&mut self, head: *mut Head, bytes: usize) {
        // SAFETY: valid by the contract.
        let place = unsafe { &(*head).next };
        // Relaxed, here and below: links are used by the owner of the list alone.
        place.store(null_mut(), Ordering::Relaxed);
        // SAFETY: null, or on the list, so valid.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.store(head, Ordering::Relaxed),
            None => self.first = head,
        }
        self.last = head;
        self.count += 1;
        self.bytes += bytes;
    }

    /// The oldest head, which belongs to the caller from now on.
    fn pop(&mut self) -> Option<*mut Head> {
        let head = self.first;
        // SAFETY: null, or on the list, so valid.
        let place = unsafe { head.as_ref() }?;
        // Relaxed: as in `push`.
        self.first = place.next.load(Ordering::Relaxed);
        if self.first.is_null() {
            self.last = null_mut();
        }
        self.count -= 1;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order() {
        let mut heads = [const { Head::new() }; 5];
        let mut list = List::new();
        for head in &mut heads {
            assert!(head.claim(8));
            // SAFETY: valid, claimed, on no list.
            unsafe { list.push(head, 1) };
        }
        assert_eq!((list.count, list.bytes), (5, 5));
        for head in &heads {
            assert_eq!(list.pop().map(|found| found.cast_const()), Some(&raw const *head));
        }
        assert!(list.is_empty() && list.pop().is_none());
    }
}
