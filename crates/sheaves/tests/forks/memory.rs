//! Memory that fails: the kernel gives none, and some of the library's requests fail.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sheaves_rcu::internal;
use std::env;

use sheaves::Sheaves;

/// Set in a process whose memory must fail.
pub(crate) const FAILING: &str = "SHEAVES_TEST_FORK_FAILING";
/// One of this many requests of the library fails.
const FAIL_ONE_IN: u32 = 3;

static FAILS: AtomicBool = AtomicBool::new(false);
/// The limit on the address space of the process while memory fails.
static LIMIT_BYTES: AtomicU64 = AtomicU64::new(0);

/// True when an allocation may fail now.
pub(crate) fn may_fail() -> bool {
    // Relaxed: a thread that sees the change late is told by its own allocations.
    FAILS.load(Ordering::Relaxed)
}

/// True when memory must fail in this process.
pub(crate) fn is_to_fail() -> bool {
    env::var_os(FAILING).is_some()
}

/// Makes memory fail from now on, if that is requested.
pub(crate) fn fail_if_asked() {
    if !is_to_fail() {
        return;
    }
    // Relaxed: see `may_fail`.
    FAILS.store(true, Ordering::Relaxed);
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    let bytes = pages * sheaves_sys::map::page_bytes() as u64;
    // Relaxed: before the first request that needs it.
    LIMIT_BYTES.store(bytes, Ordering::Relaxed);
    set_limit(bytes);
    internal::faults::FAULTS.fail_one_in(FAIL_ONE_IN);
    sheaves_slab::internal::FAULTS.fail_one_in(FAIL_ONE_IN);
}

/// Makes all requests succeed again.
pub(crate) fn succeed() {
    if !may_fail() {
        return;
    }
    set_limit(libc::RLIM_INFINITY);
    internal::faults::FAULTS.fail_one_in(0);
    sheaves_slab::internal::FAULTS.fail_one_in(0);
    // Relaxed: see `may_fail`.
    FAILS.store(false, Ordering::Relaxed);
}

/// The heap, for what Rust itself allocates. Rust aborts a program when memory is out, so the limit
/// is lifted for a moment then.
pub(crate) struct Sure;

// SAFETY: every block is one of the heap's.
unsafe impl GlobalAlloc for Sure {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        loop {
            // SAFETY: the same contract.
            let block = unsafe { Sheaves.alloc(layout) };
            if !block.is_null() || !may_fail() {
                return block;
            }
            // SAFETY: as above.
            let block = unlimited(|| unsafe { Sheaves.alloc(layout) });
            if !block.is_null() {
                return block;
            }
            // Another thread has restored the limit.
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { Sheaves.dealloc(block, layout) };
    }
}

/// Runs `body` without the limit.
pub(crate) fn unlimited<R>(body: impl FnOnce() -> R) -> R {
    if !may_fail() {
        return body();
    }
    set_limit(libc::RLIM_INFINITY);
    let result = body();
    // Relaxed: published by nothing, and constant since memory fails.
    set_limit(LIMIT_BYTES.load(Ordering::Relaxed));
    result
}

/// Limits the address space of the process, at most to the hard limit.
fn set_limit(bytes: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur = bytes.min(limit.rlim_max);
    // SAFETY: a valid limit.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
}
