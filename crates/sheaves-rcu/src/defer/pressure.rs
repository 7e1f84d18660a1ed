//! How much is deferred, and what that asks for.

use core::sync::atomic::{AtomicU64, Ordering};

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

static OBJECTS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Above these many bytes the pressure is soft, high, hard.
const SOFT_BYTES: u64 = 4 << 20;
const HIGH_BYTES: u64 = 32 << 20;
const HARD_BYTES: u64 = 256 << 20;

/// Something was deferred into a place that was empty: arms the bound on its age.
pub fn arm() {}

/// Batches were sealed: what their bytes, with all the others, ask for.
///
/// Writes to memory that all processors share, so a layer that seals often tells of many batches
/// at once, and in between asks for the [`pressure`] alone.
pub fn note_sealed(objects: usize, bytes: usize) -> Pressure {
    // Relaxed, both: counts.
    OBJECTS.fetch_add(objects as u64, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    pressure()
}

/// What the bytes that are deferred ask for, as far as layers have told of them. One load.
#[must_use]
pub fn pressure() -> Pressure {
    // Relaxed: a count.
    match BYTES.load(Ordering::Relaxed) {
        HARD_BYTES.. => Pressure::Hard,
        HIGH_BYTES.. => Pressure::High,
        SOFT_BYTES.. => Pressure::Soft,
        _ => Pressure::None,
    }
}

/// Batches were taken back.
pub fn note_reclaimed(objects: usize, bytes: usize) {
    // Relaxed, both: counts.
    OBJECTS.fetch_sub(objects as u64, Ordering::Relaxed);
    BYTES.fetch_sub(bytes as u64, Ordering::Relaxed);
}
