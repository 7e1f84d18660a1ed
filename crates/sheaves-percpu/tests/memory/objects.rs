//! Objects behind handles: zero at first, disjoint, and in every slot.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::collections::BTreeMap;

use sheaves_percpu::memory::{self, Handle, alloc, free};
use sheaves_percpu::slot_count;

use crate::Dice;

/// An object's bytes in the row of a slot.
fn bytes(handle: Handle, slot: usize) -> &'static [AtomicU8] {
    let start = handle.address(slot).unwrap().cast();
    // SAFETY: the object is allocated, and tests use its bytes as atomics only.
    unsafe { core::slice::from_raw_parts(start.as_ptr(), handle.size()) }
}

fn give(handle: Handle) {
    // SAFETY: the tests here keep no reference to it after this.
    unsafe { free(handle) }.unwrap();
}

/// Some of the slots, including the shared row.
fn some_slots() -> Vec<usize> {
    let last = slot_count();
    let mut slots = vec![0, 1.min(last), last / 2, last.saturating_sub(1), last];
    slots.dedup();
    slots
}

/// Random sizes and alignments: no byte belongs to two objects, and each object is zero at first.
#[test]
fn objects_are_zero_and_apart() {
    give(alloc(8, 8).unwrap());
    let (mut dice, mut out) = (Dice(7), BTreeMap::new());
    let slots = some_slots();
    for round in 0..if crate::engines::is_small() { 1000 } else { 6000 } {
        if dice.throw(5) < 3 {
            let (size_max, shifts) = (dice.pick(&[16, 64, 256, 5000]), dice.pick(&[4, 7, 13]));
            let handle = alloc(1 + dice.throw(size_max), 1 << dice.throw(shifts)).unwrap();
            for slot in &slots {
                let row = bytes(handle, *slot);
                assert_eq!(row.as_ptr().addr() % handle.align(), 0);
                assert!(row.iter().all(|byte| byte.load(Ordering::Relaxed) == 0), "{handle:?}");
                row.iter().for_each(|byte| byte.store(round as u8 | 1, Ordering::Relaxed));
            }
            assert!(out.insert(handle.offset(), (handle, round as u8 | 1)).is_none());
        } else if let Some((&offset, _)) = out.range(dice.throw(1 << 20)..).next() {
            let (handle, value) = out.remove(&offset).unwrap();
            for slot in &slots {
                let mut row = bytes(handle, *slot).iter();
                assert!(row.all(|byte| byte.load(Ordering::Relaxed) == value), "{handle:?}");
            }
            give(handle);
        }
    }
    let ends = out.values().map(|(handle, _)| handle.offset() + handle.size());
    assert!(out.keys().skip(1).zip(ends).all(|(next, end)| end <= *next));
    out.into_values().for_each(|(handle, _)| give(handle));
}

/// One stride: the distance between two slots' copies is the same for all objects.
#[test]
fn one_stride_for_all() {
    let handles = [alloc(8, 8).unwrap(), alloc(32 << 10, 4096).unwrap()];
    let place = |handle: Handle, slot| handle.address(slot).unwrap().addr().get();
    let distance = place(handles[0], slot_count()) - place(handles[0], 0);
    let stride = distance / slot_count();
    for handle in handles {
        for slot in some_slots() {
            assert_eq!(place(handle, slot), place(handle, 0) + slot * stride);
        }
        give(handle);
    }
}

#[test]
fn transactions_by_handle() {
    let handle = alloc(24, 8).unwrap();
    // SAFETY: the word is changed by transactions only, and allocated until the end of this test.
    unsafe { handle.cell::<usize>(8) }.add(5);
    // SAFETY: as above.
    unsafe { handle.cell::<usize>(8) }.add(2_usize.wrapping_neg());
    // SAFETY: as above.
    assert_eq!(unsafe { handle.cell::<usize>(8) }.sum(), 3);
    // The thread may have changed slots, so try until it has not.
    let replaced = (0..10_000).any(|_| {
        // SAFETY: as above.
        let value = unsafe { handle.cell::<usize>(16) }.load();
        // SAFETY: as above.
        unsafe { handle.cell::<usize>(16) }.cmp_store(value, value + 7)
    });
    assert!(replaced);
    // SAFETY: as above.
    assert_eq!(unsafe { handle.cell::<usize>(16) }.sum(), 7);
    // SAFETY: as above.
    assert!(!unsafe { handle.cell::<usize>(0) }.cmp_store(1, 2));
    // SAFETY: as above.
    assert_eq!(unsafe { handle.cell::<usize>(0) }.sum(), 0);
    give(handle);
}

/// Memory that a slot wrote to is zero for its next owner, on any slot.
#[test]
fn memory_comes_back_zero() {
    let threads = 6;
    std::thread::scope(|scope| {
        for seed in 1..=threads {
            scope.spawn(move || {
                let mut dice = Dice(seed);
                let mut out: Vec<Handle> = Vec::new();
                for _ in 0..if crate::engines::is_small() { 500 } else { 5000 } {
                    if dice.throw(2) == 0 || out.is_empty() {
                        let handle = alloc(dice.pick(&[8, 40, 64, 520]), 8).unwrap();
                        // SAFETY: changed by transactions only; allocated until freed below.
                        assert_eq!(unsafe { handle.cell::<usize>(0) }.sum(), 0);
                        // SAFETY: as above.
                        unsafe { handle.cell::<usize>(0) }.add(1);
                        out.push(handle);
                    } else {
                        let handle = out.swap_remove(dice.throw(out.len()));
                        // SAFETY: as above.
                        assert_eq!(unsafe { handle.cell::<usize>(0) }.sum(), 1);
                        give(handle);
                    }
                }
                out.into_iter().for_each(give);
            });
        }
    });
}

/// Trims while other threads allocate: nothing is lost, nothing is allocated twice.
#[test]
fn trimming_disturbs_nobody() {
    let running = AtomicUsize::new(4);
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let running = &running;
            scope.spawn(move || {
                let mut dice = Dice(seed);
                let mut out = Vec::new();
                for _ in 0..if crate::engines::is_small() { 300 } else { 4000 } {
                    if dice.throw(2) == 0 {
                        let handle = alloc(16, 8).unwrap();
                        // SAFETY: changed by transactions only; allocated until freed below.
                        unsafe { handle.cell::<usize>(0) }.add(handle.offset());
                        out.push(handle);
                    } else if let Some(handle) = out.pop() {
                        // SAFETY: as above.
                        assert_eq!(unsafe { handle.cell::<usize>(0) }.sum(), handle.offset());
                        give(handle);
                    }
                }
                out.into_iter().for_each(give);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while running.load(Ordering::Relaxed) > 0 {
            memory::trim();
            std::thread::sleep(core::time::Duration::from_micros(200));
        }
    });
}
