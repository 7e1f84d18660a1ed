//! Words on which threads sleep until somebody changes them.
//!
//! All calls keep `errno`. Words are private to the process.

use core::sync::atomic::AtomicU32;

use crate::errno;

/// How a sleep has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// Somebody has woken this thread.
    Woken,
    /// It has not slept, since the word held something else; or a signal came.
    Changed,
    /// The time was up.
    TooLong,
}

/// Of every kind: who sleeps so is woken by everybody.
const ALL_KINDS: u32 = u32::MAX;

/// Sleeps until somebody wakes the word, unless it does not hold `expected` any more.
///
/// May return at any time for no reason: the caller looks at the word again.
pub fn wait(word: &AtomicU32, expected: u32) {
    wait_until(word, expected, core::ptr::null(), ALL_KINDS);
}

/// [`wait`] for no longer than a number of nanoseconds.
pub fn wait_for(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    wait_as(word, expected, nanoseconds, ALL_KINDS);
}

/// [`wait_for`] as a sleeper of certain kinds, one for each bit: see [`wake_some`].
pub fn wait_as(word: &AtomicU32, expected: u32, nanoseconds: u64, kinds: u32) -> Slept {
    // The form with kinds takes the time at which it ends, by the monotonic clock.
    let end = crate::clock::fine_ns().saturating_add(nanoseconds);
    let limit = libc::timespec {
        tv_sec: (end / 1_000_000_000).cast_signed(),
        tv_nsec: (end % 1_000_000_000).cast_signed(),
    };
    wait_until(word, expected, &raw const limit, kinds)
}

fn wait_until(word: &AtomicU32, expected: u32, limit: *const libc::timespec, kinds: u32) -> Slept {
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let (number, address, none) = (libc::SYS_futex, word.as_ptr(), core::ptr::null::<u32>());
    errno::preserve(|| {
        // SAFETY: the word is valid for the call; the limit is null or a valid time.
        let status =
            unsafe { libc::syscall(number, address, operation, expected, limit, none, kinds) };
        match status {
            0 => Slept::Woken,
            _ if errno::get() == libc::ETIMEDOUT => Slept::TooLong,
            _ => Slept::Changed,
        }
    })
}

/// Wakes up to `count` threads that sleep on the word; how many there were. Async-signal-safe.
pub fn wake(word: &AtomicU32, count: i32) -> usize {
    wake_some(word, count, ALL_KINDS)
}

/// [`wake`] for sleepers of certain kinds: those that have a bit in common with these. Who sleeps
/// longest is woken first. Async-signal-safe.
pub fn wake_some(word: &AtomicU32, count: i32, kinds: u32) -> usize {
    let operation = libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let (number, address, none) = (libc::SYS_futex, word.as_ptr(), core::ptr::null::<u32>());
    errno::preserve(|| {
        // SAFETY: waking takes the word's address only.
        let woken = unsafe { libc::syscall(number, address, operation, count, none, none, kinds) };
        usize::try_from(woken).unwrap_or(0)
    })
}

/// Wakes all threads that sleep on the word, by one call. Async-signal-safe.
pub fn wake_all(word: &AtomicU32) -> usize {
    wake(word, i32::MAX)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::sync::atomic::Ordering;

    #[test]
    fn a_changed_word_is_not_slept_on() {
        let word = AtomicU32::new(1);
        wait(&word, 0);
        wait_for(&word, 1, 1_000_000);
        assert_eq!(wake_all(&word), 0);
    }

    #[test]
    fn all_sleepers_are_woken_by_one_call() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while WORD.load(Ordering::Acquire) == 0 {
                        wait(&WORD, 0);
                    }
                });
            }
            WORD.store(1, Ordering::Release);
            wake_all(&WORD);
        });
    }
}
