//! The head of a deferred callback, two words in the memory of its caller; and lists of heads.
//!
//! A head gets the number of its grace period when it is linked, in any domain. Numbers ascend, so
//! the heads that have passed are the first ones of the list, and it is enough to count how many
//! heads have which number. At most one grace period of a domain is under way, so a new number is
//! that of the last head or one higher: two counts suffice, as heads of the same parity with
//! another number have passed.

use core::mem::take;
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
        let is_queued = is_queued(self);
        debug_assert!(value & !ADDRESS == 0);
        if is_queued {
            self.report("is queued twice: the second is ignored");
        } else {
            // Relaxed: as in `is_queued`.
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
        // Relaxed, both: as in `is_queued`.
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

/// True from the claim of a head until its callback is about to run.
#[inline]
pub fn is_queued(head: &Head) -> bool {
    // Relaxed, all of this type: the thread that defers owns the head, and the sheaf orders its way
    // to the thread that runs the callback.
    head.call.load(Ordering::Relaxed) & !ADDRESS == QUEUED
}

/// Linked heads, oldest first, which need no memory of their own. Protected by a lock.
///
/// # Invariants
/// `first` and `last` are null together; the heads between them are queued, and belong to the list.
/// The counts add up to their number.
#[derive(Debug)]
pub(crate) struct Heads {
    first: *mut Head,
    last: *mut Head,
    /// Heads that wait, by the lowest bit of their number.
    waiting: [Count; 2],
    /// Heads whose grace period is over, as far as this was checked.
    ready: Count,
}

// SAFETY: a list owns its heads, which may be used in any thread.
unsafe impl Send for Heads {}

/// Some heads of the list, with the same number if they wait.
#[derive(Debug)]
struct Count {
    number: u64,
    heads: usize,
    bytes: usize,
}

impl Heads {
    pub(crate) const fn new() -> Heads {
        const NONE: Count = Count { number: 0, heads: 0, bytes: 0 };
        Heads { first: null_mut(), last: null_mut(), waiting: [NONE; 2], ready: NONE }
    }

    /// Adds a head, and the bytes that it stands for, with its grace period's number. `completed`,
    /// here and below, is the last one that is over. Returns the number and bytes of all heads with
    /// that number.
    ///
    /// # Safety
    /// The head is valid, claimed, and on no list; it belongs to the list afterwards.
    pub(crate) unsafe fn push(
        &mut self,
        head: *mut Head,
        bytes: usize,
        number: u64,
        completed: u64,
    ) -> (usize, usize) {
        self.check(completed);
        // Heads that are still there have this number. If they had another, they would wait longer.
        let count = &mut self.waiting[(number % 2) as usize];
        *count = Count { number, heads: count.heads + 1, bytes: count.bytes + bytes };
        // SAFETY: valid by the contract.
        // Relaxed, here and below: only the owner of the list uses its links.
        unsafe { &(*head).next }.store(null_mut(), Ordering::Relaxed);
        // SAFETY: null, or on the list and so valid.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.store(head, Ordering::Relaxed),
            None => self.first = head,
        }
        self.last = head;
        (count.heads, count.bytes)
    }

    /// Counts as ready what has passed.
    fn check(&mut self, completed: u64) {
        for count in self.waiting.iter_mut().filter(|count| count.number <= completed) {
            self.ready.heads += take(&mut count.heads);
            self.ready.bytes += take(&mut count.bytes);
        }
    }

    /// Number of heads whose grace period is over: the first ones.
    pub(crate) fn ready(&mut self, completed: u64) -> usize {
        self.check(completed);
        self.ready.heads
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Takes the oldest head if its grace period is over, and its share of the bytes of those.
    pub(crate) fn pop_ready(&mut self, completed: u64) -> Option<(*mut Head, usize)> {
        self.check(completed);
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

/// The callbacks that wait for readers of a domain, see `defer/work/domains.rs`.
pub(crate) struct Calls<Domain: 'static> {
    pub(crate) heads: Heads,
    /// How many were deferred, taken, and are done.
    pub(crate) deferred: u64,
    pub(crate) taken: u64,
    pub(crate) done: u64,
    /// The number of the last one that was deferred, and of the last one that was sealed.
    pub(crate) last: u64,
    pub(crate) wanted: u64,
    /// Since when its sealed callbacks wait, or the last one of them has run, in ms of the clock; 0
    /// if none waits. And whether that was reported.
    pub(crate) since_ms: u64,
    pub(crate) is_reported: bool,
    pub(crate) next: Option<&'static Domain>,
}

impl<Domain> Calls<Domain> {
    pub(crate) const fn new() -> Self {
        let (heads, next) = (Heads::new(), None);
        let (deferred, taken, done, last, wanted, since_ms) = (0, 0, 0, 0, 0, 0);
        let is_reported = false;
        Calls { heads, deferred, taken, done, last, wanted, since_ms, is_reported, next }
    }

    pub(crate) fn wait_since(&mut self, since_ms: u64) {
        (self.since_ms, self.is_reported) = (since_ms, false);
    }
}

#[cfg(test)]
#[path = "../tests/unit/heads.rs"]
mod tests;
