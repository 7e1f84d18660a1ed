//! Drives what an allocator has in the caches out of them: walks over other data of the program.

use core::sync::atomic::{AtomicU64, Ordering};

const LINE_BYTES: usize = 64;
const BYTES_MAX: usize = 32 << 20;

static DATA: [AtomicU64; BYTES_MAX / 8] = [const { AtomicU64::new(0) }; BYTES_MAX / 8];

/// Bytes that are walked over: beyond the second level of most machines, between, and beyond the
/// third; and how rows call that.
pub(crate) const SWEEPS: [(&str, usize); 3] =
    [("1m", 1 << 20), ("4m", 4 << 20), ("32m", BYTES_MAX)];

/// Reads and writes a word in each cache line of these bytes.
#[inline(never)]
pub(crate) fn sweep(bytes: usize) {
    for word in DATA[..bytes / 8].iter().step_by(LINE_BYTES / 8) {
        // Relaxed, twice: a number that nothing depends on.
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
