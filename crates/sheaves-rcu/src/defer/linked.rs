//! Heads that are linked by themselves, because there is no memory for them or no slot.
//!
//! ```text
//!   open --sealed--> waiting[cookie % 2] --passed--> ready
//! ```
//!
//! A list waits as a whole for one cookie, and heads are added to it only when that is theirs, too.
//! Two places are enough, so heads can be sealed at any time: at most one grace period is under
//! way, so a cookie that is made now is one above that of the oldest list that may have to wait, or
//! the same. What is found in its place with another one has passed.

use core::mem::take;
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

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

/// Heads that wait, and for what.
#[derive(Debug)]
struct Waiting {
    heads: List,
    cookie: Cookie,
}

impl Waiting {
    const fn new() -> Waiting {
        Waiting { heads: List::new(), cookie: Cookie::from_bits(0) }
    }

    fn has_passed(&self) -> bool {
        !self.heads.is_empty() && self.cookie.has_passed()
    }
}

/// The heads of a shard that are linked. Under its lock.
#[derive(Debug)]
pub(super) struct Linked {
    /// Those without a cookie.
    open: List,
    /// Those that wait, by the lowest bit of their cookie.
    waiting: [Waiting; 2],
    /// Those whose cookie has passed, as far as they were looked at.
    ready: List,
}

impl Linked {
    pub(super) const fn new() -> Linked {
        Linked { open: List::new(), waiting: [const { Waiting::new() }; 2], ready: List::new() }
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

    /// Gives the heads that have none a cookie.
    pub(super) fn seal(&mut self) -> Option<Cookie> {
        if self.open.is_empty() {
            return None;
        }
        pressure::note_sealed(self.open.count, self.open.bytes);
        // After the last head came.
        let cookie = Cookie::get();
        let place = &mut self.waiting[(cookie.to_bits() % 2) as usize];
        if place.has_passed() {
            self.ready.append(take(&mut place.heads));
        }
        // Those that are still there have this cookie. Were there others, they would wait longer.
        place.heads.append(take(&mut self.open));
        place.cookie = cookie;
        Some(cookie)
    }

    /// Heads that are sealed and their bytes, and all heads and theirs.
    pub(super) fn counts(&self) -> [(usize, usize); 2] {
        let waiting = self.waiting.iter().map(|waiting| &waiting.heads);
        let sealed = waiting
            .chain([&self.ready])
            .fold((0, 0), |(heads, bytes), list| (heads + list.count, bytes + list.bytes));
        [sealed, (sealed.0 + self.open.count, sealed.1 + self.open.bytes)]
    }

    /// Are there heads whose cookie has passed?
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.waiting.iter().any(Waiting::has_passed)
    }

    /// Takes a head whose cookie has passed, the oldest first, and its bytes: those of a list are
    /// dealt out evenly, the rest to the last one.
    pub(super) fn pop_ready(&mut self) -> Option<(*mut Head, usize)> {
        if self.ready.is_empty() {
            let passed = self.waiting.iter_mut().filter(|waiting| waiting.has_passed());
            self.ready = take(&mut passed.min_by_key(|waiting| waiting.cookie)?.heads);
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

    /// Puts the heads of another list behind those of this one.
    fn append(&mut self, other: List) {
        // SAFETY: null, or on the list, so valid.
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
        let mut heads = [const { Head::new() }; 6];
        let (mut list, mut rest) = (List::new(), List::new());
        for (number, head) in heads.iter_mut().enumerate() {
            assert!(head.claim(8));
            let list = if number < 3 { &mut list } else { &mut rest };
            // SAFETY: valid, claimed, on no list.
            unsafe { list.push(head, 1) };
        }
        list.append(List::new());
        list.append(rest);
        let mut all = List::new();
        all.append(list);
        assert_eq!((all.count, all.bytes), (6, 6));
        for head in &heads {
            assert_eq!(all.pop().map(|found| found.cast_const()), Some(&raw const *head));
        }
        assert!(all.is_empty() && all.pop().is_none());
    }

    #[test]
    fn heads_are_sealed_while_others_wait() {
        let mut heads = [const { Head::new() }; 8];
        let mut linked = Linked::new();
        for head in &mut heads {
            assert!(head.claim(8));
            // SAFETY: valid, claimed, on no list.
            unsafe { linked.push(head, 1) };
            let cookie = linked.seal().unwrap();
            assert!(linked.open.is_empty() && linked.seal().is_none());
            // Others of this process may complete grace periods, too.
            cookie.start_expedited();
        }
        crate::synchronize().unwrap();
        assert!(linked.has_ready());
        for head in &heads {
            let (found, bytes) = linked.pop_ready().unwrap();
            assert_eq!((found.cast_const(), bytes), (&raw const *head, 1));
        }
        assert!(!linked.has_ready() && linked.pop_ready().is_none());
        pressure::note_reclaimed(heads.len(), heads.len());
    }
}
