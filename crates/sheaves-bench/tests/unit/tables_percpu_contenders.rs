//! Tests of `src/tables/percpu/contenders.rs`.

use crate::tables::percpu::chunked::{Chunked, Reserved};
use crate::tables::percpu::contenders::*;
use crate::tables::percpu::library;
use crate::tables::percpu::mutex_pool::MutexPools;
use crate::tables::percpu::padded_box::PaddedBox;
use crate::tables::percpu::slot_memory::SlotMemory;
use sheaves_history::percpu::{V50, V52};
use sheaves_percpu::internal::dynamic::Allocator;
use std::sync::Mutex;

const THREADS: usize = 3;
const ROUNDS: usize = 50;
const LIVE: usize = 100;
const SIZES: [usize; 4] = [8, 16, 24, 32];

/// Every object of a thread is counted in by that thread alone, so no count changes under it.
fn check<C: PerCpuMemory>() {
    let contender = C::new(&SlotMemory::new(2, 64 << 10, 4 << 20)).unwrap();
    let live = Mutex::new(std::collections::HashSet::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| round(&contender, &live)));
        }
    });
    assert!(live.lock().unwrap().is_empty());
    let tally = contender.tally(0);
    assert!(tally.chunks.is_none_or(|chunks| chunks.allocations > 0));
}

fn round<C: PerCpuMemory>(contender: &C, live: &Mutex<std::collections::HashSet<Vec<u8>>>) {
    let objects: Vec<(C::Object, usize)> = (0..LIVE)
        .map(|index| {
            let size = SIZES[index % SIZES.len()];
            let object = contender.alloc(size, 8);
            assert!(live.lock().unwrap().insert(bytes_of(&object)), "two owners");
            // SAFETY: just allocated with this size.
            unsafe { contender.zero(object, size) };
            // SAFETY: as above; every size is 8 at least, and so is the alignment.
            unsafe { contender.add(object) };
            (object, size)
        })
        .collect();
    for (object, size) in objects {
        assert!(live.lock().unwrap().remove(&bytes_of(&object)));
        // SAFETY: allocated above and freed once.
        unsafe { contender.free(object, size) };
    }
}

/// What tells objects apart: all of them are plain numbers.
fn bytes_of<O: Copy>(object: &O) -> Vec<u8> {
    let start = (&raw const *object).cast::<u8>();
    // SAFETY: numbers have no padding, and the slice does not outlive the object.
    unsafe { core::slice::from_raw_parts(start, size_of::<O>()) }.to_vec()
}

#[test]
fn no_object_has_two_owners() {
    check::<Chunked<V50<Reserved>>>();
    check::<Chunked<V52<Reserved>>>();
    check::<Chunked<Allocator<Reserved>>>();
    check::<library::Typed>();
    check::<library::Handles>();
    check::<MutexPools>();
    check::<PaddedBox>();
}
