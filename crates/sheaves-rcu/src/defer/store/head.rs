//! The head of a deferred callback: two words in the memory of its caller.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use sheaves_sys::report;

/// A callback: gets the head that was deferred.
///
/// Runs where [`mod@crate::defer`] says, never inside a read section. It may allocate, free, read,
/// defer again (the same head, too), and wait for readers. A callback that leaves a read section
/// open or unwinds aborts the process.
pub type Call = unsafe extern "C" fn(*mut Head);

/// The upper bits of [`Head::call`] in a queued head. Code addresses are below 2^48.
const QUEUED: usize = 0xA5C3 << 48;
const ADDRESS: usize = (1 << 48) - 1;

/// 16 bytes in an object, by which it is deferred (`rcu_head`). Zero bytes are an idle head.
///
/// | `call` | meaning | written by |
/// |---|---|---|
/// | 0 | idle | the thread that runs the callback, before it does |
/// | `QUEUED`, address | queued: to be called | the thread that defers |
/// | `QUEUED`, anything | queued in a channel's list: see `list` | the thread that defers |
#[repr(C)]
#[derive(Debug, Default)]
pub struct Head {
    /// The next head of a list. Used by the owner of the list.
    pub(crate) next: AtomicPtr<Head>,
    call: AtomicUsize,
}

const _: () = assert!(size_of::<Head>() == 16);

impl Head {
    /// An idle head.
    #[must_use]
    pub const fn new() -> Head {
        Head { next: AtomicPtr::new(null_mut()), call: AtomicUsize::new(0) }
    }

    /// Marks the head as queued. False, with a report, if it is queued already. An incorrect
    /// program that queues one head in two threads at the same moment may succeed in both.
    #[inline]
    pub(crate) fn claim(&self, value: usize) -> bool {
        // Relaxed, all of this type: the thread that defers owns the head, and the sheaf orders its
        // way to the thread that runs the callback.
        let is_queued = self.call.load(Ordering::Relaxed) & !ADDRESS == QUEUED;
        debug_assert!(value & !ADDRESS == 0);
        if is_queued {
            self.report("is queued twice: the second is ignored");
        } else {
            // Relaxed: as above.
            self.call.store(value | QUEUED, Ordering::Relaxed);
        }
        !is_queued
    }

    #[cold]
    fn report(&self, mistake: &str) {
        let head = core::ptr::from_ref(self);
        report::report(format_args!("rcu: head {head:p} {mistake}"));
    }

    /// Makes the head idle. Returns what it was claimed with; `None`, with a report, if it was not.
    pub(crate) fn finish(&self) -> Option<usize> {
        // Relaxed, both: as in `claim`.
        let value = self.call.load(Ordering::Relaxed);
        if value & !ADDRESS != QUEUED {
            self.report("was changed while it was queued");
            return None;
        }
        // Relaxed: as above.
        self.call.store(0, Ordering::Relaxed);
        Some(value & ADDRESS)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/head.rs"]
mod tests;
