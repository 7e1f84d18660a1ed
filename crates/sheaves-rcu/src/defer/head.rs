//! What a deferred call needs in the memory of its caller: two words.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use sheaves_sys::report;

/// What is called: gets the head that was deferred.
///
/// Runs in a reclaimer, or in whoever calls [`super::poll`], never in a read section. It may
/// allocate, free, read, defer again (the same head, too), and wait for readers. It must leave the
/// read sections that it enters, and cannot unwind: that ends the process.
pub type Call = unsafe extern "C" fn(*mut Head);

/// The bits of [`Head::call`] that say that the head is queued. Code lies below 2^48.
const QUEUED: usize = 0xA5C3 << 48;
const ADDRESS: usize = (1 << 48) - 1;

/// 16 bytes in an object, by which it is deferred. To be embedded; zero bytes are an idle head.
///
/// | `call` | meaning | written by |
/// |---|---|---|
/// | 0 | idle | whoever runs the call, before it does |
/// | `QUEUED`, address | queued: to be called | whoever defers |
/// | `QUEUED`, anything | queued in a channel's list: see `list` | whoever defers |
#[repr(C)]
#[derive(Debug)]
pub struct Head {
    /// The next head where heads are linked. Used by the owner of the list.
    next: AtomicPtr<Head>,
    call: AtomicUsize,
}

const _: () = assert!(size_of::<Head>() == 16);

impl Head {
    /// An idle head.
    #[must_use]
    pub const fn new() -> Head {
        Head { next: AtomicPtr::new(null_mut()), call: AtomicUsize::new(0) }
    }

    /// Marks the head as queued; false, with a line, if it is queued already.
    ///
    /// Two threads that queue one head at the same moment may both succeed: a correct program does
    /// not, and the common case is to cost nothing.
    #[inline]
    pub(super) fn claim(&self, value: usize) -> bool {
        // Relaxed, here and below: who defers owns the head; its way to whoever runs the call is
        // ordered by the buffer.
        if self.call.load(Ordering::Relaxed) & !ADDRESS == QUEUED {
            return self.report_twice();
        }
        debug_assert!(value & !ADDRESS == 0);
        // Relaxed: as above.
        self.call.store(value | QUEUED, Ordering::Relaxed);
        true
    }

    #[cold]
    fn report_twice(&self) -> bool {
        let head = core::ptr::from_ref(self);
        report::report(format_args!("rcu: head {head:p} is queued twice: the second is ignored"));
        false
    }

    /// Makes the head idle: what it was claimed with. `None`, with a line, if it is not queued.
    pub(super) fn finish(&self) -> Option<usize> {
        // Relaxed, both: as in `claim`.
        let value = self.call.load(Ordering::Relaxed);
        if value & !ADDRESS != QUEUED {
            let head = core::ptr::from_ref(self);
            report::report(format_args!("rcu: head {head:p} was changed while it was queued"));
            return None;
        }
        // Relaxed: as above.
        self.call.store(0, Ordering::Relaxed);
        Some(value & ADDRESS)
    }
}

impl Default for Head {
    fn default() -> Head {
        Head::new()
    }
}

/// Heads in a row, oldest first: what needs no memory.
///
/// # Invariants
/// `first` and `last` are null together; the heads between are queued, and belong to the list.
#[derive(Debug)]
pub(super) struct List {
    first: *mut Head,
    last: *mut Head,
    pub(super) count: usize,
    pub(super) bytes: usize,
}

// SAFETY: a list is an owner of heads, which may be used in any thread.
unsafe impl Send for List {}

impl List {
    pub(super) const fn new() -> List {
        List { first: null_mut(), last: null_mut(), count: 0, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// # Safety
    /// The head is valid, claimed, and on no list; it belongs to the list from now on.
    pub(super) unsafe fn push(&mut self, head: *mut Head, bytes: usize) {
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
    pub(super) fn pop(&mut self) -> Option<*mut Head> {
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
    fn a_head_is_queued_once() {
        let head = Head::new();
        assert!(head.claim(16));
        assert!(!head.claim(16));
        assert_eq!(head.finish(), Some(16));
        assert_eq!(head.finish(), None);
        assert!(head.claim(32));
    }

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
