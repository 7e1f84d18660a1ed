//! Futexes: words on which threads sleep until another thread changes and wakes them.
//!
//! All calls keep `errno`. Words are private to the process.

use core::sync::atomic::AtomicU32;

use crate::{clock, errno};

/// Sleeps until the word is woken; returns at once if the word does not hold `expected`.
///
/// Spurious wake-ups happen: the caller must check the word again.
pub fn wait(word: &AtomicU32, expected: u32) {
    wait_until(word, expected, core::ptr::null());
}

/// [`wait`] for at most `nanoseconds`.
pub fn wait_for(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    let limit = clock::duration(nanoseconds);
    wait_until(word, expected, &raw const limit);
}

fn wait_until(word: &AtomicU32, expected: u32, limit: *const libc::timespec) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    errno::preserve(|| {
        // SAFETY: the word is valid for the call; the limit is null or a valid duration.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit) };
    });
}

/// Wakes up to `count` threads that sleep on the word, the one that has slept longest first.
/// Returns how many it woke. Async-signal-safe.
pub fn wake(word: &AtomicU32, count: i32) -> usize {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    errno::preserve(|| {
        // SAFETY: waking takes the word's address only.
        let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) };
        usize::try_from(woken).unwrap_or(0)
    })
}

/// Wakes all threads that sleep on the word, by one system call. Async-signal-safe.
pub fn wake_all(word: &AtomicU32) -> usize {
    wake(word, i32::MAX)
}

#[cfg(test)]
#[path = "../tests/unit/futex.rs"]
mod tests;
