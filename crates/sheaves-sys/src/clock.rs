//! Monotonic time for decay decisions.

/// Milliseconds of `CLOCK_MONOTONIC_COARSE`: a few nanoseconds to read, resolution 1-10 ms.
///
/// Never blocks; async-signal-safe.
#[must_use]
pub fn coarse_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the call to fill.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    if status != 0 {
        return 0;
    }
    now.tv_sec.cast_unsigned() * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000
}
