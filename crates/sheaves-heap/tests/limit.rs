//! Near its limit the heap returns what is unused, and tells the program.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves_heap::{free, malloc, on_near_limit, report, set_limit};

const LIMIT_BYTES: usize = 64 << 20;

static CALLS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn near(heap_bytes: usize, limit_bytes: usize) {
    assert_eq!(limit_bytes, LIMIT_BYTES);
    assert!(heap_bytes > 0);
    CALLS.fetch_add(1, Ordering::SeqCst);
}

/// Bytes that are in use or hold old contents.
fn heap_bytes() -> usize {
    let totals = report::totals();
    totals.used_bytes + totals.cached_bytes + totals.dirty_bytes
}

/// Allocates that many bytes in blocks of one size, writes them, and frees them.
fn burst(bytes: usize, size: usize) {
    let blocks: Vec<_> = (0..bytes / size).map(|_| malloc(size)).collect();
    for block in &blocks {
        // SAFETY: the block has that size.
        unsafe { block.write_bytes(1, size) };
    }
    for block in blocks {
        // SAFETY: from this heap, not used after.
        unsafe { free(block) };
    }
}

#[test]
fn what_is_unused_goes_back_near_the_limit() {
    set_limit(Some(LIMIT_BYTES));
    on_near_limit(Some(near));
    burst(40 << 20, 2 << 20);
    assert_eq!(CALLS.load(Ordering::SeqCst), 0, "far from the limit");
    // With what the first burst has left there would be more.
    burst(40 << 20, 1000);
    assert!(heap_bytes() < LIMIT_BYTES, "{} bytes", heap_bytes());
    let begin = Instant::now();
    while CALLS.load(Ordering::SeqCst) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "the program was not told");
        thread::sleep(Duration::from_millis(10));
    }
    set_limit(None);
    let calls = CALLS.load(Ordering::SeqCst);
    burst(100 << 20, 3000);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(CALLS.load(Ordering::SeqCst), calls, "there is no limit any more");
    on_near_limit(None);
}
