//! The calling thread's `errno`.
//!
//! `free` must leave `errno` alone (POSIX.1-2024), so its slow path saves and restores it.

/// Out of memory (`ENOMEM`).
pub const ENOMEM: i32 = libc::ENOMEM;
/// Invalid argument (`EINVAL`).
pub const EINVAL: i32 = libc::EINVAL;
/// Try again (`EAGAIN`).
pub const EAGAIN: i32 = libc::EAGAIN;
/// In use (`EBUSY`).
pub const EBUSY: i32 = libc::EBUSY;
/// The call would deadlock (`EDEADLK`).
pub const EDEADLK: i32 = libc::EDEADLK;
/// Exists already (`EEXIST`).
pub const EEXIST: i32 = libc::EEXIST;
/// No space left (`ENOSPC`).
pub const ENOSPC: i32 = libc::ENOSPC;

/// Reads `errno` of the calling thread. Never blocks; async-signal-safe.
#[must_use]
pub fn get() -> i32 {
    let location = location();
    // SAFETY: `location` is the calling thread's own errno, valid for its lifetime.
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

#[cfg(test)]
#[path = "../tests/unit/errno.rs"]
mod tests;
