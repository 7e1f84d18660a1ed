//! Tests of `src/tid.rs`.

use super::*;
fn tid(size: usize) -> Tid {
    let layout = core::alloc::Layout::from_size_align(size, 8).unwrap();
    Tid::new(Cache::new("tid", layout, sheaves::raw::Options::default()).unwrap()).unwrap()
}

#[test]
fn every_change_bumps_the_number() {
    let tid = tid(64);
    // The thread may migrate, so the sum over all slots is what must grow.
    let sum = || tid.slots.iter().map(|slot| slot.0.read().1).sum::<u64>();
    let start = sum();
    let object = tid.alloc();
    let after_alloc = sum();
    assert!(after_alloc > start);
    // SAFETY: allocated above and freed once.
    unsafe { tid.free(object) };
    assert_eq!(sum(), after_alloc + tid.step);
    let before = sum();
    for slot in &tid.slots {
        // SAFETY: `with_slots` has checked that the CPU has the instruction.
        unsafe { (tid.enabled.flush)(&tid, &slot.0) };
    }
    assert_eq!(sum(), before + tid.step * tid.slots.len() as u64);
    assert!(tid.slots.iter().all(|slot| slot.0.read().0 == 0));
}

#[test]
fn a_long_list_is_flushed() {
    let tid = tid(16);
    let all: Vec<_> = (0..CAPACITY * 4).map(|_| tid.alloc()).collect();
    for object in all {
        // SAFETY: allocated above and freed once.
        unsafe { tid.free(object) };
    }
    assert!(tid.slots.iter().all(|slot| length_of(slot.0.read().0) <= CAPACITY));
}
