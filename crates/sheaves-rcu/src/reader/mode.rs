//! How readers and grace periods are ordered: by membarrier, or by a fence in every reader.
//!
//! Decided once, by the first thread that registers a reader or begins a grace period.
//!
//! The fork handlers of the readers are here: in the child, the sections of other threads are over.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use sheaves_sys::fork::{self, Handlers, Layer};
use sheaves_sys::{membarrier, options, report, thread};

use super::registry;

static HANDLERS: Handlers =
    Handlers { prepare: || (), parent: || (), child: restart_in_child, recover: || () };
sheaves_sys::announce_when_loaded!(Readers, &HANDLERS);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    /// The kernel makes all threads fence once per grace period; readers do not fence.
    Membarrier = 1,
    /// Membarrier is refused: readers fence when they begin.
    Fences = 2,
}

/// The mode, 0 while undecided. Written by the first [`mode`], and by the child of a fork.
static MODE: AtomicU32 = AtomicU32::new(0);

/// The mode of this process. Async-signal-safe.
#[inline]
pub(crate) fn mode() -> Mode {
    // Acquire pairs with the Release in `decide`: the decision is in effect.
    match MODE.load(Ordering::Acquire) {
        1 => Mode::Membarrier,
        2 => Mode::Fences,
        _ => decide(),
    }
}

#[cold]
fn decide() -> Mode {
    // Here, too: a linker drops members of an archive that nothing refers to.
    fork::announce(Layer::Readers, &HANDLERS);
    registry::prepare();
    options::read();
    let wants_fences = options::RCU_FENCES.is_on();
    let registered = !wants_fences && membarrier::register_fence();
    let chosen = if registered { Mode::Membarrier } else { Mode::Fences };
    // Release pairs with the Acquire in `mode`. Relaxed on failure: `mode` reads it again.
    if MODE.compare_exchange(0, chosen as u32, Ordering::Release, Ordering::Relaxed).is_ok() {
        registry::report_missing_key();
    }
    mode()
}

/// The heavy fence: when this returns true, every thread has passed a full fence since the call. In
/// [`Mode::Fences`] only the caller has, and its fence pairs with those of readers. False where the
/// kernel refuses membarrier to this thread: another thread has to lead.
#[must_use]
pub(crate) fn heavy_fence() -> bool {
    // SeqCst pairs with the fence of readers, also of domains, in [`Mode::Fences`]. [R2]
    fence(Ordering::SeqCst);
    mode() != Mode::Membarrier || membarrier::fence() || fence_after_refusal()
}

/// A seccomp filter came into force after the start: a slower way to fence the readers is tried.
#[cold]
fn fence_after_refusal() -> bool {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    let is_done = membarrier::fence_slowly();
    // Relaxed: one of the threads that find it false reports.
    if !is_done && !IS_REPORTED.swap(true, Ordering::Relaxed) {
        let thread = thread::id();
        report::report(format_args!(
            "rcu: membarrier was allowed and is now refused to thread {thread}: its grace periods \
             wait until another thread leads them"
        ));
    }
    is_done
}

/// Readers of an SRCU domain take the fast path where their domain's state is equal to this. Bits
/// from 2 on count the forks since the first process. Written in the child of a fork, and in
/// [`Mode::Fences`].
pub(crate) static DOMAINS: AtomicU32 = AtomicU32::new(0);
/// In [`DOMAINS`]: readers fence.
pub(crate) const FENCES: u32 = 1;
const FORK: u32 = 4;

/// In the child of a fork, which has lost the registration. Domains will write off their sections.
fn restart_in_child() {
    // Relaxed, all: the child has one thread.
    let asked = MODE.load(Ordering::Relaxed) == Mode::Membarrier as u32;
    let readers_fence = asked && !membarrier::register_fence();
    DOMAINS.fetch_add(FORK, Ordering::Relaxed);
    if readers_fence {
        MODE.store(Mode::Fences as u32, Ordering::Relaxed);
        DOMAINS.fetch_or(FENCES, Ordering::Relaxed);
    }
    registry::restart_in_child(readers_fence);
}
