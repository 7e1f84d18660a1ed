//! The count of nested sections does not overflow: at its limit the process aborts.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use sheaves_rcu::{read, synchronize};
use sheaves_sys::tls;

use crate::children::in_child;

const LIMIT: Duration = Duration::from_secs(60);
/// Limit on nested sections.
const NESTED_MAX: u64 = u32::MAX as u64;

/// The calling thread's second word, which counts nested sections in its low half.
fn second_word() -> &'static AtomicU64 {
    let first = tls::reader().cast::<AtomicU64>();
    let second = first.wrapping_add(1);
    // SAFETY: a record begins with both words, and is never unmapped.
    unsafe { &*second }
}

/// Leaks sections until only `left` more are possible.
fn leak_all_but(left: u64) {
    core::mem::forget(read());
    second_word().fetch_add(NESTED_MAX - left, Ordering::Relaxed);
}

#[test]
fn too_many_nested_sections_end_the_process() {
    let warm = || (0..300).for_each(|_| drop(read()));
    for before in [(|| drop(read())) as fn(), warm] {
        // The last one that fits is an ordinary section.
        assert!(in_child(LIMIT, || {
            before();
            leak_all_but(1);
            drop(read());
            sheaves_rcu::is_reading() && synchronize().is_err()
        }));
        assert!(!in_child(LIMIT, || {
            before();
            leak_all_but(1);
            let _last = read();
            core::mem::forget(read());
            true
        }));
    }
}
