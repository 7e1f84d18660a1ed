//! Tests of `src/tables/footprint/blocks.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;

fn blocks(capacity: usize) -> Blocks<Glibc> {
    Blocks::new(Arc::new(Glibc), capacity, 1)
}

#[test]
fn bytes_are_counted_and_some_blocks_are_kept() {
    let mut blocks = blocks(1000);
    blocks.add(64_000, |_| 64);
    assert_eq!((blocks.len(), blocks.bytes), (1000, 64_000));
    blocks.free(0..100);
    blocks.free_all_but(250);
    assert_eq!((blocks.len(), blocks.bytes), (250, 16_000));
}

#[test]
fn replacements_keep_the_bytes_and_the_room() {
    let mut blocks = blocks(100);
    for (sizes, bytes_min) in [(50, 4900), (2000, 8000), (10, 900)] {
        for _ in 0..5000 {
            blocks.replace(10_000, |_| sizes);
            assert!(blocks.bytes <= 10_000 && blocks.live.capacity() == 100);
        }
        assert!(blocks.bytes >= bytes_min, "{} with {sizes}", blocks.bytes);
    }
}
