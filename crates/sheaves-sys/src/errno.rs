//! The calling thread's `errno`.
//!
//! `free` must leave `errno` alone (POSIX.1-2024), so its slow path saves and restores it.

pub use libc::{EAGAIN, EBUSY, EDEADLK, EEXIST, EINVAL, ENOMEM, ENOSPC, ENOSYS, EOPNOTSUPP};

/// Reads `errno` of the calling thread. Never blocks; async-signal-safe.
pub fn get() -> i32 {
    let location = location();
    // SAFETY: the calling thread's own errno, valid for its lifetime.
    unsafe { *location }
}

/// Sets `errno` of the calling thread. Never blocks; async-signal-safe.
pub fn set(value: i32) {
    let location = location();
    // SAFETY: `location` is the calling thread's own errno, and no reference to it is alive.
    unsafe { *location = value }
}

fn location() -> *mut i32 {
    // SAFETY: the call has no precondition and returns a pointer valid in this thread.
    unsafe { libc::__errno_location() }
}

/// Runs `body` and restores `errno` afterwards.
pub fn preserve<R>(body: impl FnOnce() -> R) -> R {
    let saved = get();
    let result = body();
    set(saved);
    result
}
