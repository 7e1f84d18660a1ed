//! How readers and grace periods are ordered: by membarrier, or by a fence in every reader.
//!
//! Decided once, when the object is loaded. The fork handlers of the readers are here, too.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use sheaves_sys::fork::{self, Handlers, Layer};
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, membarrier, options, report, run_when_loaded, sandbox, thread, tls};

use super::registry;

static HANDLERS: Handlers = Handlers { prepare: || (), parent: || (), child: restart_in_child };
sheaves_sys::announce_when_loaded!(Readers, &HANDLERS);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FenceMode {
    /// The kernel makes all threads fence once per grace period; readers do not fence.
    Membarrier = 1,
    /// Membarrier is refused: readers fence when they begin.
    Fences = 2,
}

/// The mode, 0 while undecided. Written by the first [`mode`].
#[unsafe(link_section = ".sheaves_load")]
static MODE: AtomicU32 = AtomicU32::new(0);

run_when_loaded!(mode());

/// The mode of this process. Async-signal-safe.
#[inline]
pub(crate) fn mode() -> FenceMode {
    // Acquire pairs with the Release in `decide`: the decision is in effect.
    match MODE.load(Ordering::Acquire) {
        1 => FenceMode::Membarrier,
        2 => FenceMode::Fences,
        _ => decide(),
    }
}

#[cold]
#[unsafe(link_section = ".text.sheaves_load")]
fn decide() -> FenceMode {
    // Here, too: a linker drops members of an archive that nothing refers to.
    fork::announce(Layer::Readers, &HANDLERS);
    thread::READERS.prepare(registry::at_exit);
    options::read();
    let wants_fences = options::RCU_FENCES.is_on();
    let registered = !wants_fences && membarrier::register_fence_all();
    let chosen = if registered { FenceMode::Membarrier } else { FenceMode::Fences };
    // Release pairs with the Acquire in `mode`. Relaxed on failure: `mode` reads it again.
    let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
    let is_ours = MODE.compare_exchange(0, chosen as u32, release, relaxed).is_ok();
    if is_ours && !tls::can_have_reader() {
        report::report(format_args!(
            "rcu: libc has no key left below 32: readers are counted together, and grace periods \
             wait until no thread reads"
        ));
    }
    mode()
}

/// True if threads that register from now on fence in all of their sections.
pub(crate) fn new_readers_fence() -> bool {
    mode() == FenceMode::Fences || sandbox::is_entered()
}

/// After this time other processors see what a thread has stored, and its later loads are of memory
/// as it was then. A processor keeps a store to itself for less than a microsecond, and no longer
/// than until the next interrupt; see A. Morrison and Y. Afek, "Temporally Bounding TSO for
/// Fence-Free Asymmetric Synchronization", ASPLOS 2015.
const STORES_SEEN_NS: u64 = 10_000_000;

/// The kernel has refused what it permitted at the start.
#[unsafe(link_section = ".sheaves_load")]
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The heavy fence: when this returns true, every thread has passed a full fence since `since_ns`,
/// the time of a fence of the caller or earlier. In [`FenceMode::Fences`] only the caller has, and
/// its fence pairs with those of readers. Where membarrier may not be called, or is refused, time
/// takes its place: false as long as there was too little, or another thread may do better.
#[must_use]
pub(crate) fn heavy_fence(since_ns: u64, reach: Reach) -> bool {
    // SeqCst pairs with the fence of readers, also of domains, in [`FenceMode::Fences`]. [R2]
    fence(Ordering::SeqCst);
    if mode() == FenceMode::Fences {
        return true;
    }
    if reach == Reach::Interrupts && !fences_by_time() {
        if membarrier::fence_all() {
            return true;
        }
        // Relaxed: a flag that is set for good.
        IS_REFUSED.store(true, Ordering::Relaxed);
    }
    fences_by_time() && clock::fine_ns().saturating_sub(since_ns) >= STORES_SEEN_NS
}

/// True where [`heavy_fence`] by any thread succeeds after some time.
pub(crate) fn fences_by_time() -> bool {
    // Relaxed: as above.
    IS_REFUSED.load(Ordering::Relaxed) || sandbox::is_entered()
}

/// Readers of an SRCU domain take the fast path where their domain's state is equal to this. Bits
/// from 2 on count the forks since the first process. Written in the child of a fork, and in
/// [`FenceMode::Fences`].
#[unsafe(link_section = ".sheaves_load")]
pub(crate) static DOMAINS: AtomicU32 = AtomicU32::new(0);
/// In [`DOMAINS`]: readers fence.
pub(crate) const FENCES: u32 = 1;
/// One fork in [`DOMAINS`].
pub(crate) const FORK: u32 = 4;

/// In the child of a fork. Domains will write off their sections. The registration for membarrier
/// is inherited.
fn restart_in_child() {
    // Relaxed: the child has one thread.
    DOMAINS.fetch_add(FORK, Ordering::Relaxed);
    registry::restart_in_child();
}
