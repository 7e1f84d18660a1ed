//! How much is deferred and for how long, and what has to be done about it.
//!
//! | `ARMED` | meaning | transitions |
//! |---|---|---|
//! | 0 | nothing was deferred since everything was last sealed | -> the time, by [`arm`] |
//! | ms of the clock | when something was first deferred since | -> 0, by a thread that seals |
//!
//! A thread that seals disarms *before* it collects what is deferred. A thread whose push it does
//! not find arms after that push, and reads 0. Between the two is the drain, which is a fence in
//! every thread, or an exchange of the very word that was pushed to. [A1]

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use sheaves_sys::{clock, options};

/// What the number of deferred bytes demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Nothing.
    None,
    /// A grace period now.
    Soft,
    /// An expedited grace period.
    High,
    /// The caller itself reclaims what is ready. It never waits.
    Hard,
}

/// Sealed objects and bytes. A batch may be reclaimed before the thread that has sealed it has
/// counted it, so these may be below 0 for a moment.
static OBJECTS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);
static ARMED: AtomicU64 = AtomicU64::new(0);

#[inline]
pub(crate) fn is_armed() -> bool {
    // Relaxed: the sealer's fence orders it after what the caller has deferred. [A1]
    ARMED.load(Ordering::Relaxed) != 0
}

/// Arms the bound on the age; false if another thread did.
pub(crate) fn arm() -> bool {
    let now = clock::coarse_ms().max(1);
    // SeqCst: before the check whether the reclaimer sleeps, see `reclaimer`. Relaxed on failure:
    // another thread has armed it, and does the rest.
    ARMED.compare_exchange(0, now, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Since when something is deferred and not sealed, in ms of the clock.
pub(crate) fn armed_ms() -> Option<u64> {
    // SeqCst: after the load of the bell, see `reclaimer`.
    let armed = ARMED.load(Ordering::SeqCst);
    (armed != 0).then_some(armed)
}

/// For how long something has been deferred and not sealed.
pub(crate) fn age_ms() -> Option<u64> {
    armed_ms().map(|armed| clock::coarse_ms().saturating_sub(armed))
}

/// To be called before everything is sealed. Returns what [`armed_ms`] did before.
pub(crate) fn disarm() -> Option<u64> {
    // SeqCst, both: before the search for what is deferred. [A1]
    let armed = ARMED.swap(0, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    (armed != 0).then_some(armed)
}

/// The pressure of the deferred bytes that layers have reported. A few loads.
///
/// A grace period interrupts each CPU that runs the process, which takes 5 to 10 us in a virtual
/// machine. By default one is started above 4 MiB: for 64 Ki objects of 64 bytes that is
/// negligible, and a few times as much fits into the last-level cache. 32 MiB do not, so above that
/// it is expedited.
pub fn pressure() -> Pressure {
    let hard = options::RCU_BYTES.get();
    match sealed()[1] {
        bytes if bytes < hard / 64 => Pressure::None,
        bytes if bytes < hard / 8 => Pressure::Soft,
        bytes if bytes < hard => Pressure::High,
        _ => Pressure::Hard,
    }
}

/// Counts what was sealed. May be called under locks; `wake_if_pressed` follows without them.
pub fn note_sealed(objects: usize, bytes: usize) {
    // Relaxed, both: counts.
    OBJECTS.fetch_add(objects as i64, Ordering::Relaxed);
    BYTES.fetch_add(bytes as i64, Ordering::Relaxed);
}

/// Counts batches that were reclaimed.
pub fn note_reclaimed(objects: usize, bytes: usize) {
    // Relaxed, both: counts.
    OBJECTS.fetch_sub(objects as i64, Ordering::Relaxed);
    BYTES.fetch_sub(bytes as i64, Ordering::Relaxed);
}

pub(crate) fn sealed() -> [u64; 2] {
    // Relaxed, both: statistics.
    let counts = [&OBJECTS, &BYTES].map(|count| count.load(Ordering::Relaxed));
    counts.map(|count| u64::try_from(count).unwrap_or(0))
}
