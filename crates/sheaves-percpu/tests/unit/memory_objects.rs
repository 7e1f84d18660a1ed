//! A new allocator after a fork's child has lost the old one.

extern crate std;
use super::*;
use crate::memory::backing::UNIT_BYTES;
use crate::word::RowWord;
use std::vec::Vec;

/// Allocates objects of three shapes: one with a class, a large one, and one in between.
fn alloc_some() -> Vec<(usize, Shape)> {
    let shapes =
        [(8, 8), (24, 8), (20_000, 64)].map(|(size, align)| Shape::new(size, align).unwrap());
    let take = |number: usize| {
        let shape = shapes[number % 3];
        (alloc_uncached(shape).unwrap(), shape)
    };
    (0..60).map(take).collect()
}

/// A word in the first row, which is always open.
fn first_word(offset: usize) -> &'static core::sync::atomic::AtomicUsize {
    // SAFETY: tests use offsets of objects only.
    unsafe { RowWord::new(offset) }.in_row(rows::row(0))
}

#[test]
fn another_allocator_begins_behind_what_was_given_out() {
    let old = alloc_some();
    for (offset, _) in &old {
        first_word(*offset).store(*offset, Ordering::Relaxed);
    }
    MEMORY.lock().recover();
    let base = MEMORY.lock().base;
    assert!(base.is_multiple_of(UNIT_BYTES) && old.iter().all(|(offset, _)| *offset < base));
    let new = alloc_some();
    for (offset, _) in &new {
        assert!(*offset >= base);
        assert_eq!(first_word(*offset).load(Ordering::Relaxed), 0);
        first_word(*offset).store(*offset, Ordering::Relaxed);
    }
    for (offset, shape) in old.into_iter().chain(new) {
        assert_eq!(first_word(offset).load(Ordering::Relaxed), offset);
        // SAFETY: allocated above, and used by no other thread.
        unsafe { free(offset, shape) };
    }
    caches::drain();
    MEMORY.lock().allocator().unwrap().trim();
    assert!(alloc_some().iter().all(|(offset, _)| *offset >= base));
}
