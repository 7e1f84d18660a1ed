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

/// A batch was sealed: what its bytes, with all the others, ask for.
pub fn note_sealed(objects: usize, bytes: usize) -> Pressure {
    // Relaxed, both: counts.
    OBJECTS.fetch_add(objects as u64, Ordering::Relaxed);
    match BYTES.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 {
        HARD_BYTES.. => Pressure::Hard,
        HIGH_BYTES.. => Pressure::High,
        SOFT_BYTES.. => Pressure::Soft,
        _ => Pressure::None,
    }
}

/// A batch was taken back.
pub fn note_reclaimed(objects: usize, bytes: usize) {
    // Relaxed, both: counts.
    OBJECTS.fetch_sub(objects as u64, Ordering::Relaxed);
    BYTES.fetch_sub(bytes as u64, Ordering::Relaxed);
}
