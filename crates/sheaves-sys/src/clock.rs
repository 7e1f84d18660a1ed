//! Monotonic time, and durations.

/// Milliseconds of `CLOCK_MONOTONIC_COARSE`: a few nanoseconds to read, resolution 1-10 ms.
///
/// Never blocks; async-signal-safe.
pub fn coarse_ms() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000
}

/// Nanoseconds of `CLOCK_MONOTONIC`; about 25 ns to read. 0 when the system call fails.
pub fn fine_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Milliseconds since 1970, of the wall clock.
pub fn wall_ms() -> u64 {
    read(libc::CLOCK_REALTIME) / 1_000_000
}

/// Nanoseconds of `clock`, 0 when the system call fails.
fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the call to fill.
    let status = unsafe { libc::clock_gettime(clock, &raw mut now) };
    if status != 0 {
        return 0;
    }
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

pub(crate) fn duration(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000).cast_signed(),
        tv_nsec: (nanoseconds % 1_000_000_000).cast_signed(),
    }
}
