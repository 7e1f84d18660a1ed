//! What a program asks to be returned to the kernel is returned, and counted.

use sheaves_heap::report::{self, Totals};
use sheaves_heap::{free, malloc, release_to, trim};
use sheaves_sys::options;

const MIB: usize = 1 << 20;

/// Allocates that many bytes in blocks of one size, and writes them.
fn burst(bytes: usize, size: usize) -> Vec<*mut u8> {
    let blocks: Vec<_> = (0..bytes / size).map(|_| malloc(size)).collect();
    for block in &blocks {
        // SAFETY: the block has that size.
        unsafe { block.write_bytes(1, size) };
    }
    blocks
}

fn release(blocks: Vec<*mut u8>) {
    for block in blocks {
        // SAFETY: from this heap, not used after.
        unsafe { free(block) };
    }
}

/// Bytes that are in use or hold old contents.
fn heap_bytes(totals: &Totals) -> usize {
    totals.used_bytes + totals.cached_bytes + totals.dirty_bytes
}

/// One test, since others would use the same memory. Nothing goes back by itself.
#[test]
fn as_much_is_returned_as_was_asked_for() {
    options::DECAY_MS.set(options::NEVER);
    release(burst(24 * MIB, 3000));
    assert!(trim(8 * MIB));
    let kept = report::totals();
    let dirty = kept.dirty_bytes;
    assert!((7 * MIB..=8 * MIB).contains(&dirty), "{dirty} bytes are dirty");
    assert!(kept.purged_bytes >= 15 * MIB as u64 && kept.returned_bytes >= kept.purged_bytes);

    // Mappings count, too, and go first.
    release(burst(20 * MIB, 4 * MIB));
    assert!(trim(8 * MIB));
    let totals = report::totals();
    assert!(totals.dirty_bytes <= 8 * MIB, "{} bytes are dirty", totals.dirty_bytes);
    assert!(totals.returned_bytes >= kept.returned_bytes + 12 * MIB as u64);

    trim(0);
    let empty = report::totals();
    assert_eq!(empty.dirty_bytes, 0);
    assert!(!trim(0), "nothing is left");

    // What was returned and is used again counts as refilled.
    let blocks = burst(16 * MIB, 3000);
    let used = report::totals();
    let refilled = used.refilled_bytes - empty.refilled_bytes;
    assert!((15 * MIB as u64..=18 * MIB as u64).contains(&refilled), "{refilled} bytes refilled");

    // As far as memory is not in use.
    let all_bytes = heap_bytes(&used) + 20 * MIB;
    assert!(release_to(all_bytes));
    assert!(!release_to(8 * MIB));
    release(blocks);
    let purged = report::totals().purged_bytes;
    assert!(release_to(8 * MIB));
    let totals = report::totals();
    assert!(heap_bytes(&totals) <= 8 * MIB, "{} bytes", heap_bytes(&totals));
    assert!(totals.purged_bytes > purged);
}
