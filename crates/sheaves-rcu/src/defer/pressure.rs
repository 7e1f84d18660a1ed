//! How much is deferred, since when, and what that asks for.
//!
//! | `ARMED` | meaning | transitions |
//! |---|---|---|
//! | 0 | nothing was deferred since everything was sealed last | -> the time, by [`arm`] |
//! | ms of the clock | something was, then at the earliest | -> 0, by whoever seals everything |
//!
//! Whoever seals disarms *before* it looks. Who has put something where the sealer does not find it
//! any more arms after that, and finds the word 0: between the two stands the drain, which
//! is a fence in every thread or an exchange of the very word onto which was pushed. [A1]

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use sheaves_sys::clock;

use super::{options, reclaimer};

/// What the bytes that are deferred ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Nothing.
    None,
    /// A grace period now.
    Soft,
    /// An expedited one.
    High,
    /// The caller itself takes back what is ready. It never waits.
    Hard,
}

/// What is sealed. A batch may be taken back before the thread that has sealed it has counted it,
/// so these may be below 0 for a moment.
static OBJECTS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);
/// The time, see above.
static ARMED: AtomicU64 = AtomicU64::new(0);

/// Something was deferred into a place that was empty: arms the bound on its age.
///
/// One load when it is armed. Otherwise wakes the reclaimer if that sleeps without end, or starts
/// it: libc allocates for that, so this is not for places where `malloc` must not be called.
#[inline]
pub fn arm() {
    // Relaxed: the sealer's fence orders it behind what the caller has deferred. [A1]
    if ARMED.load(Ordering::Relaxed) == 0 {
        arm_slow();
    }
}

#[cold]
fn arm_slow() {
    let now = clock::coarse_ms().max(1);
    // SeqCst: before the look whether the reclaimer sleeps, see `reclaimer`. Relaxed on failure:
    // somebody else was faster, and does the rest.
    if ARMED.compare_exchange(0, now, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        reclaimer::wake_for_age();
    }
}

/// Since when something is deferred and not sealed, in milliseconds of the clock.
pub(super) fn armed_ms() -> Option<u64> {
    // SeqCst: behind the look at the bell, see `reclaimer`.
    let armed = ARMED.load(Ordering::SeqCst);
    (armed != 0).then_some(armed)
}

/// Before everything is sealed: since when something was deferred.
pub(super) fn disarm() -> Option<u64> {
    // SeqCst, both: before the look at what is there. [A1]
    let armed = ARMED.swap(0, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    (armed != 0).then_some(armed)
}

/// What the bytes that are deferred ask for, as far as layers have told of them. A few loads.
#[must_use]
pub fn pressure() -> Pressure {
    let bytes = sealed().1;
    let [soft, high, hard] = options::limits();
    match bytes {
        _ if bytes < soft => Pressure::None,
        _ if bytes < high => Pressure::Soft,
        _ if bytes < hard => Pressure::High,
        _ => Pressure::Hard,
    }
}

/// Counts what was sealed. May be called under locks; [`after_seal`] follows without them.
pub fn note_sealed(objects: usize, bytes: usize) {
    // Relaxed, both: counts.
    OBJECTS.fetch_add(objects as i64, Ordering::Relaxed);
    BYTES.fetch_add(bytes as i64, Ordering::Relaxed);
}

/// What follows [`note_sealed`]: wakes the reclaimer, or starts it, if the pressure is high. The
/// pressure. Not under a lock: libc allocates for a thread.
pub fn after_seal() -> Pressure {
    let pressure = pressure();
    if pressure >= Pressure::High {
        reclaimer::ring(reclaimer::READY);
    }
    pressure
}

/// So many bytes that were taken back are worth a look at what the system could have of them: it
/// takes a tenth of a millisecond for each MiB to give memory back and to get it again.
const MUCH_BYTES: u64 = 16 << 20;

/// Bytes that were taken back since memory was given to the system last.
static TAKEN_BACK: AtomicU64 = AtomicU64::new(0);

/// Was much taken back since memory was given to the system last?
pub(super) fn is_much_taken_back() -> bool {
    // Relaxed: a hint.
    TAKEN_BACK.load(Ordering::Relaxed) >= MUCH_BYTES
}

/// Memory is given to the system now.
pub(super) fn note_given_back() {
    // Relaxed: as above.
    TAKEN_BACK.store(0, Ordering::Relaxed);
}

/// Batches were taken back.
pub fn note_reclaimed(objects: usize, bytes: usize) {
    // Relaxed: a hint.
    TAKEN_BACK.fetch_add(bytes as u64, Ordering::Relaxed);
    // Relaxed, both: counts.
    OBJECTS.fetch_sub(objects as i64, Ordering::Relaxed);
    BYTES.fetch_sub(bytes as i64, Ordering::Relaxed);
}

/// In a child of a fork without handlers: nothing is sealed until those who hold it say so.
pub(super) fn restart() {
    // Relaxed, both: the child has one thread.
    OBJECTS.store(0, Ordering::Relaxed);
    BYTES.store(0, Ordering::Relaxed);
}

/// What is sealed and not taken back: objects and bytes.
pub(super) fn sealed() -> (u64, u64) {
    // Relaxed, both: statistics.
    let counts = [&OBJECTS, &BYTES].map(|count| count.load(Ordering::Relaxed));
    let [objects, bytes] = counts.map(|count| u64::try_from(count).unwrap_or(0));
    (objects, bytes)
}
