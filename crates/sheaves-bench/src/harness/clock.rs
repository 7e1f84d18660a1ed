//! Clocks of the kernel.

use core::time::Duration;

/// CPU time of all threads of this process so far.
pub(crate) fn process_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The time of a clock that every process has.
pub(crate) fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the call fills in `time`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
