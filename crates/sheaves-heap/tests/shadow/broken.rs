//! Heaps with one fault each: the shadow has to detect every fault.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::Mutex;

use proptest::collection::vec;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::block::{Block, Shadow, Wrong};
use crate::heap::{Heap, Sheaves};
use crate::op::{Op, Random, any_op};
use crate::worker::Worker;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// `malloc` hands out a block that is alive.
    SameTwice,
    /// `malloc` hands out a block that begins 8 bytes before the end of a live one.
    OverlapByEight,
    /// `realloc` does not copy.
    ForgetsAtRealloc,
    /// `realloc` copies all but the last byte.
    ForgetsLastByte,
    /// `calloc` does not clear one byte.
    DirtyCalloc,
    /// `aligned_alloc` aligns to 16 bytes only.
    Misaligned,
    /// `usable_size` is less than the requested size.
    TellsLess,
    /// `free` writes into a block that is alive.
    Scribbles,
    /// `cache_free` loses an object.
    LosesObject,
    /// `cache_alloc_bulk` hands out one object twice.
    SameTwiceInBulk,
}

const BLOCK_BYTES: usize = 1024;

/// The real heap with a fault.
struct Broken<'a> {
    real: &'a Sheaves,
    fault: Fault,
    /// The last block of [`Broken::malloc`] that is alive.
    last: Mutex<Option<Last>>,
}

struct Last(NonNull<u8>);

// SAFETY: only the address is used, and only the testing thread accesses the memory.
unsafe impl Send for Last {}

impl Broken<'_> {
    fn last(&self) -> Option<NonNull<u8>> {
        self.last.lock().unwrap().as_ref().map(|last| last.0)
    }

    fn forget(&self, block: NonNull<u8>) {
        let mut last = self.last.lock().unwrap();
        last.take_if(|last| last.0 == block);
    }
}

impl Heap for Broken<'_> {
    fn malloc(&self, size: usize) -> Option<NonNull<u8>> {
        let last = self.last();
        match (self.fault, last) {
            // SAFETY: alive, according to the shadow.
            (Fault::SameTwice, Some(last)) if unsafe { self.real.usable_size(last) } >= size => {
                return Some(last);
            }
            (Fault::OverlapByEight, Some(last)) if size <= BLOCK_BYTES => {
                // SAFETY: the block has more than twice as many bytes.
                return Some(unsafe { last.add(BLOCK_BYTES) });
            }
            _ => {}
        }
        let is_small = self.fault == Fault::OverlapByEight && size <= BLOCK_BYTES;
        let block = self.real.malloc(if is_small { 4 * BLOCK_BYTES } else { size })?;
        if self.fault != Fault::OverlapByEight || is_small {
            *self.last.lock().unwrap() = Some(Last(block));
        }
        Some(block)
    }

    fn calloc(&self, count: usize, size: usize) -> Option<NonNull<u8>> {
        let block = self.real.calloc(count, size)?;
        if self.fault == Fault::DirtyCalloc && count * size > 0 {
            // SAFETY: inside the block.
            let byte = unsafe { block.add(count * size - 1) };
            // SAFETY: as above.
            unsafe { byte.write(1) };
        }
        Some(block)
    }

    fn aligned_alloc(&self, align: usize, size: usize) -> Option<NonNull<u8>> {
        if self.fault != Fault::Misaligned || align <= 16 {
            return self.real.aligned_alloc(align, size);
        }
        // SAFETY: the block is longer by that much.
        Some(unsafe { self.real.aligned_alloc(align, size + 16)?.add(16) })
    }

    fn alloc_layout(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.real.alloc_layout(layout)
    }

    unsafe fn dealloc_layout(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { self.real.dealloc_layout(block, layout) }
    }

    unsafe fn realloc(&self, block: NonNull<u8>, size: usize) -> Option<NonNull<u8>> {
        self.forget(block);
        // SAFETY: the same contract.
        let old = unsafe { self.real.usable_size(block) };
        // SAFETY: the same contract.
        let new = unsafe { self.real.realloc(block, size) }?;
        let kept = old.min(size);
        let wrong = match self.fault {
            Fault::ForgetsAtRealloc => 0..kept,
            Fault::ForgetsLastByte if size < old => kept.saturating_sub(1)..kept,
            _ => 0..0,
        };
        for offset in wrong {
            // SAFETY: inside the new block.
            let byte = unsafe { new.add(offset) };
            // SAFETY: as above; reads what was copied.
            let value = unsafe { byte.read() };
            // SAFETY: as above.
            unsafe { byte.write(!value) };
        }
        Some(new)
    }

    unsafe fn free(&self, block: NonNull<u8>) {
        self.forget(block);
        if let (Fault::Scribbles, Some(last)) = (self.fault, self.last()) {
            // SAFETY: the smallest block has more than one byte, and this one is alive.
            let value = unsafe { last.read() };
            // SAFETY: as above.
            unsafe { last.write(!value) };
        }
        // SAFETY: the same contract.
        unsafe { self.real.free(block) }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        if self.fault == Fault::OverlapByEight && self.last() == Some(block) {
            return BLOCK_BYTES + 8;
        }
        // SAFETY: the same contract.
        let usable = unsafe { self.real.usable_size(block) };
        if self.fault == Fault::TellsLess { usable / 2 } else { usable }
    }

    fn cache_layout(&self, cache: usize) -> Layout {
        self.real.cache_layout(cache)
    }

    fn cache_alloc(&self, cache: usize) -> Option<NonNull<u8>> {
        self.real.cache_alloc(cache)
    }

    unsafe fn cache_free(&self, cache: usize, object: NonNull<u8>) {
        if self.fault != Fault::LosesObject {
            // SAFETY: the same contract.
            unsafe { self.real.cache_free(cache, object) }
        }
    }

    fn cache_alloc_bulk(&self, cache: usize, count: usize) -> Vec<NonNull<u8>> {
        let mut objects = self.real.cache_alloc_bulk(cache, count);
        if self.fault == Fault::SameTwiceInBulk && count > 1 {
            objects[count - 1] = objects[0];
        }
        objects
    }

    unsafe fn cache_free_bulk(&self, cache: usize, objects: &[NonNull<u8>]) {
        // SAFETY: the same contract.
        unsafe { self.real.cache_free_bulk(cache, objects) }
    }

    fn cache_shrink(&self, cache: usize) {
        self.real.cache_shrink(cache);
    }

    fn trim(&self) {
        self.real.trim();
    }

    fn objects_out(&self) -> usize {
        self.real.objects_out()
    }
}

/// Runs operations on a broken heap until the shadow detects the fault.
///
/// Its blocks are not freed when it stops, so the real heap has leaks afterwards.
fn verdict(real: &Sheaves, fault: Fault, ops: impl Iterator<Item = Op>) -> Result<(), Wrong> {
    let heap = Broken { real, fault, last: Mutex::new(None) };
    let (shadow, out_before) = (Shadow::default(), heap.objects_out());
    let mut worker = Worker::new(&heap, &shadow, 1);
    for op in ops {
        worker.apply(op)?;
    }
    worker.finish()?;
    match heap.objects_out() - out_before {
        0 => Ok(()),
        objects => Err(Wrong::Left { objects }),
    }
}

#[test]
fn every_fault_is_detected_as_what_it_is() {
    type Expected = fn(&Wrong) -> bool;
    let faults: [(Fault, Expected); 10] = [
        (Fault::SameTwice, |wrong| matches!(wrong, Wrong::Overlap { .. })),
        (
            Fault::OverlapByEight,
            |wrong| matches!(wrong, Wrong::Overlap { new, old } if old.end - new.start == 8),
        ),
        (Fault::ForgetsAtRealloc, |wrong| matches!(wrong, Wrong::Contents { .. })),
        (Fault::ForgetsLastByte, |wrong| matches!(wrong, Wrong::Contents { .. })),
        (Fault::DirtyCalloc, |wrong| matches!(wrong, Wrong::NotZero { .. })),
        (Fault::Misaligned, |wrong| matches!(wrong, Wrong::Misaligned { .. })),
        (Fault::TellsLess, |wrong| matches!(wrong, Wrong::TooSmall { .. })),
        (Fault::Scribbles, |wrong| matches!(wrong, Wrong::Contents { .. })),
        (Fault::LosesObject, |wrong| matches!(wrong, Wrong::Left { .. })),
        (Fault::SameTwiceInBulk, |wrong| matches!(wrong, Wrong::Overlap { .. })),
    ];
    let real = Sheaves::new();
    for (fault, is_expected) in faults {
        let mut random = Random::new(7);
        let wrong = verdict(&real, fault, (0..5000).map(|_| random.op())).expect_err("not noticed");
        assert!(is_expected(&wrong), "{fault:?} was noticed as {wrong}");
    }
}

#[test]
fn failing_sequence_shrinks_to_the_operation_that_fails() {
    let real = Sheaves::new();
    let config = Config { failure_persistence: None, ..Config::default() };
    let error = TestRunner::new(config)
        .run(&vec(any_op(), 1..200), |ops| {
            verdict(&real, Fault::DirtyCalloc, ops.into_iter())
                .map_err(|wrong| TestCaseError::fail(wrong.to_string()))
        })
        .expect_err("not noticed");
    let TestError::Fail(_, ops) = error else { panic!("{error}") };
    assert_eq!(ops, [Op::Calloc { count: 1, size: 1 }]);
}

/// Blocks of every size are written and checked from the first byte to the last.
#[test]
fn change_of_the_last_byte_is_detected_in_blocks_of_every_size() {
    let shadow = Shadow::default();
    for size in (0..5000).chain([65_535, 65_536, 1 << 20, (3 << 20) + 5]) {
        let mut memory = vec![0_u64; size / 8 + 1];
        let start = NonNull::from(&mut memory[..]).cast::<u8>();
        let kind = crate::block::Kind::Plain;
        let block = Block::enter(&shadow, start, (size, size), kind, size as u64).unwrap();
        assert_eq!(block.check_copy(start, size), Ok(()));
        if size > 0 {
            let last = (size - 1) / 8;
            memory[last] = !memory[last];
            assert!(block.check_copy(start, size).is_err());
            memory[last] = !memory[last];
        }
        block.leave(&shadow).unwrap();
    }
    assert_eq!(shadow.count(), 0);
}
