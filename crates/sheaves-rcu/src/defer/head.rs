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
/// | `QUEUED`, anything | queued in a channel's list: see `linked` | whoever defers |
#[repr(C)]
#[derive(Debug)]
pub struct Head {
    /// The next head where heads are linked. Used by the owner of the list.
    pub(super) next: AtomicPtr<Head>,
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
}
