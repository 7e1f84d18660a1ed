//! Futexes: words on which threads sleep until another thread changes and wakes them.
//!
//! All calls keep `errno`. Words are private to the process, except where a name says `shared`:
//! those are in memory that several processes map.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::{clock, errno, sandbox};

const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;

/// `futex(2)` for a word at any address, which the kernel checks; its result or its error. `limit`
/// is for how many nanoseconds to wait.
fn call(word: *const u32, operation: i32, value: u32, limit: Option<u64>) -> Result<usize, i32> {
    let limit = limit.map(clock::duration);
    let limit = limit.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    errno::preserve(|| {
        // SAFETY: the kernel writes no memory; the limit is null or a valid duration.
        let result = unsafe { libc::syscall(libc::SYS_futex, word, operation, value, limit) };
        usize::try_from(result).map_err(|_| errno::get())
    })
}

/// Sleeps until the word is woken; returns at once if the word does not hold `expected`.
///
/// Spurious wake-ups happen: the caller must check the word again.
pub fn wait(word: &AtomicU32, expected: u32) {
    let _ = call(word.as_ptr(), libc::FUTEX_WAIT | PRIVATE, expected, None);
}

/// [`wait`] for at most `nanoseconds`.
pub fn wait_for(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    let _ = call(word.as_ptr(), libc::FUTEX_WAIT | PRIVATE, expected, Some(nanoseconds));
}

/// [`wait_for`] on a shared word.
pub fn wait_shared_for(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    let _ = call(word.as_ptr(), libc::FUTEX_WAIT, expected, Some(nanoseconds));
}

/// Wakes up to `count` threads that sleep on the word, the one that has slept longest first.
/// Returns how many it woke. Async-signal-safe.
pub fn wake(word: &AtomicU32, count: i32) -> usize {
    call(word.as_ptr(), libc::FUTEX_WAKE | PRIVATE, count.cast_unsigned(), None).unwrap_or(0)
}

/// Wakes all threads that sleep on the word, by one system call. Async-signal-safe.
pub fn wake_all(word: &AtomicU32) -> usize {
    wake(word, i32::MAX)
}

/// Wakes all threads of all processes that sleep on a shared word.
pub fn wake_all_shared(word: &AtomicU32) {
    let _ = call(word.as_ptr(), libc::FUTEX_WAKE, i32::MAX.cast_unsigned(), None);
}

/// True if the kernel can read the word at an address, a multiple of 4. Does not wait.
pub(crate) fn is_readable(address: usize) -> bool {
    // Most words hold something else, so that the call ends before it would sleep for no time.
    const UNLIKELY: u32 = 0x9c53_e1a7;
    let word = core::ptr::with_exposed_provenance(address);
    let result = call(word, libc::FUTEX_WAIT | PRIVATE, UNLIKELY, Some(0));
    matches!(result, Err(libc::EAGAIN | libc::ETIMEDOUT))
}

/// One of the words of `futex_waitv(2)`: `struct futex_waitv`.
#[repr(C)]
struct Waiter {
    expected: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

impl Waiter {
    /// `FUTEX2_SIZE_U32`.
    const U32: u32 = 2;

    fn new((word, expected): (&AtomicU32, u32), flags: i32) -> Waiter {
        let address = word.as_ptr().expose_provenance() as u64;
        let flags = Waiter::U32 | flags.cast_unsigned();
        Waiter { expected: u64::from(expected), address, flags, reserved: 0 }
    }
}

/// The kernel has refused `futex_waitv(2)`, or does not have it.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Sleeps. Async-signal-safe; a signal may end it early. Not a cancellation point: the caller may
/// hold what other threads wait for.
pub fn sleep_ns(nanoseconds: u64) {
    // A word that no thread wakes: a sandbox that has not heard of us permits `futex`.
    static NEVER: AtomicU32 = AtomicU32::new(0);
    wait_for(&NEVER, 0, nanoseconds);
}

/// Sleeps until one of two words is woken, the second of which is shared; returns at once if one
/// does not hold what is expected. False if the kernel cannot wait for two words: then it did not
/// sleep.
#[must_use]
pub fn wait_either(
    private: (&AtomicU32, u32),
    shared: (&AtomicU32, u32),
    nanoseconds: u64,
) -> bool {
    // Relaxed, here and below: a flag that is set for good.
    if IS_REFUSED.load(Ordering::Relaxed) || sandbox::is_entered() {
        return false;
    }
    let words = [Waiter::new(private, libc::FUTEX_PRIVATE_FLAG), Waiter::new(shared, 0)];
    // An absolute limit.
    let limit = clock::duration(clock::fine_ns().saturating_add(nanoseconds));
    let limit = &raw const limit;
    errno::preserve(|| {
        let (first, count, no_flags) = (words.as_ptr(), words.len(), 0);
        let (call, clock) = (libc::SYS_futex_waitv, libc::CLOCK_MONOTONIC);
        // SAFETY: the words are valid for the call; the limit is a valid time.
        let status = unsafe { libc::syscall(call, first, count, no_flags, limit, clock) };
        let is_refused = status < 0 && [libc::ENOSYS, libc::EPERM].contains(&errno::get());
        if is_refused {
            IS_REFUSED.store(true, Ordering::Relaxed);
        }
        !is_refused
    })
}
