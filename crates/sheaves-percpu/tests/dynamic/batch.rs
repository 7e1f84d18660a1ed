//! Batches: the same places as for single requests, and frees in any order.

use std::collections::BTreeMap;

use crate::dynamic::{Allocator, Config, Error, FreeError};

use super::arena::Arena;
use super::random::Random;

const CONFIG: Config = Config { unit_bytes: 64 << 10, chunks_max: 12 };
const BATCH_MAX: usize = 64;

fn allocator() -> Allocator<Arena> {
    Allocator::new(Arena::new(), CONFIG).unwrap()
}

/// The allocated objects: their sizes in the bitmaps, by offset.
type Model = BTreeMap<usize, usize>;

/// Verifies all metadata, and the objects in the bitmaps.
fn verify(allocator: &mut Allocator<Arena>, model: &Model) {
    allocator.verify().unwrap_or_else(|violation| panic!("{violation}"));
    let mut found = Model::new();
    allocator.for_each_object(|offset, bytes| {
        found.insert(offset, bytes);
    });
    assert_eq!(found, *model);
    assert_eq!(allocator.statistics().objects() as usize, model.len());
}

/// Allocates up to 64 objects of one size; false when not even one fits.
fn alloc(allocator: &mut Allocator<Arena>, model: &mut Model, random: &mut Random) -> bool {
    let (size, align) =
        [(4, 4), (16, 16), (20, 4), (48, 16), (20, 16), (256, 64), (3000, 8)][random.below(7)];
    let mut offsets = [0; BATCH_MAX];
    let wanted = &mut offsets[..1 + random.below(BATCH_MAX)];
    allocator.backing_mut().allowance =
        if random.once_in(20) { random.below(5) } else { usize::MAX };
    let result = allocator.alloc_many(size, align, wanted);
    allocator.backing_mut().allowance = usize::MAX;
    let count = match result {
        Ok(count) => count,
        Err(Error::NoMemory) => return true,
        Err(refusal) => {
            assert_eq!(refusal, Error::Exhausted);
            return false;
        }
    };
    assert!(count > 0);
    for offset in &wanted[..count] {
        assert!(offset.is_multiple_of(align));
        assert!(model.insert(*offset, size.next_multiple_of(4)).is_none());
    }
    let mut all = model.iter().zip(model.keys().skip(1));
    assert!(all.all(|((offset, bytes), next)| offset + bytes <= *next), "objects overlap");
    true
}

/// Objects next to each other, and some that are not.
fn free(allocator: &mut Allocator<Arena>, model: &mut Model, random: &mut Random) {
    let first = random.below(CONFIG.chunks_max * CONFIG.unit_bytes);
    let mut offsets: Vec<_> = model.range(first..).map(|(offset, _)| *offset).take(40).collect();
    offsets.extend(model.keys().step_by(17).take(8));
    offsets.sort_unstable();
    offsets.dedup();
    offsets.retain(|_| !random.once_in(6));
    offsets.iter().for_each(|offset| {
        model.remove(offset);
    });
    if random.once_in(2) {
        for last in (1..offsets.len()).rev() {
            offsets.swap(last, random.below(last + 1));
        }
    }
    assert_eq!(allocator.free_many(&offsets), Ok(()));
}

#[test]
fn all_metadata_stays_exact() {
    for seed in 0..6 {
        let (mut allocator, mut model) = (allocator(), Model::new());
        let mut random = Random::new(seed);
        let mut growing = true;
        for _ in 0..300 {
            if growing {
                growing = alloc(&mut allocator, &mut model, &mut random);
            } else {
                free(&mut allocator, &mut model, &mut random);
                growing = random.once_in(3);
            }
            verify(&mut allocator, &model);
            if allocator.balance_wanted() && random.once_in(4) {
                allocator.balance();
                verify(&mut allocator, &model);
            }
        }
        let rest: Vec<_> = model.keys().copied().collect();
        assert_eq!(allocator.free_many(&rest), Ok(()));
        verify(&mut allocator, &Model::new());
    }
}

/// A batch fills the same holes as single requests.
#[test]
fn batches_take_the_places_of_single_requests() {
    let (mut one, mut many) = (allocator(), allocator());
    let mut offsets = [0; 2000];
    let single = |allocator: &mut Allocator<Arena>, count: usize| -> Vec<usize> {
        (0..count).map(|_| allocator.alloc(16, 16).unwrap()).collect()
    };
    let filled = single(&mut one, 2000);
    assert_eq!(many.alloc_many(16, 16, &mut offsets), Ok(2000));
    assert_eq!(filled, offsets);
    for offset in filled.iter().step_by(3).chain(filled[600..700].iter().skip(1).step_by(3)) {
        assert_eq!(one.free(*offset), Ok(16));
        assert_eq!(many.free(*offset), Ok(16));
    }
    let mut again = [0; 900];
    assert_eq!(many.alloc_many(16, 16, &mut again), Ok(900));
    let mut expected = single(&mut one, 900);
    expected.sort_unstable();
    again.sort_unstable();
    assert_eq!(expected, again);
    let work = (one.counters().chunks_tested, many.counters().chunks_tested);
    assert!(work.1 < work.0, "{work:?}");
}

#[test]
fn what_is_no_object_is_refused() {
    let mut allocator = allocator();
    let mut offsets = [0; 8];
    assert_eq!(allocator.alloc_many(16, 4, &mut offsets), Ok(8));
    assert_eq!(allocator.alloc_many(16, 4, &mut []), Ok(0));
    let zero = allocator.alloc_many(0, 4, &mut offsets.clone());
    assert_eq!(zero, Err(Error::ZeroSize));
    let bad = offsets[3] + 4;
    let list = [offsets[1], offsets[2], bad, offsets[5]];
    assert_eq!(allocator.free_many(&list), Err((bad, FreeError::NotAnObject)));
    // Those before it are free; those after it are not.
    assert_eq!(allocator.free(offsets[2]), Err(FreeError::AlreadyFree));
    let twice = [offsets[5], offsets[5]];
    assert_eq!(allocator.free_many(&twice), Err((offsets[5], FreeError::AlreadyFree)));
    let rest = [offsets[0], offsets[3], offsets[4], offsets[6], offsets[7]];
    assert_eq!(allocator.free_many(&rest), Ok(()));
    assert_eq!(allocator.statistics().objects(), 0);
    allocator.verify().unwrap();
}
