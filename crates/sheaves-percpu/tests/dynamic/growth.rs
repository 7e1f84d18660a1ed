//! Populating, giving back, and requests that must not grow.

use sheaves_percpu::dynamic::verify::Promise;
use sheaves_percpu::dynamic::{
    AllocError, Allocator, ChunkLabel, Config, Fixed, Growth, Offset, PAGE_BYTES,
};

use crate::arena::Arena;

const UNIT_BYTES: usize = 32 << 10;
const CONFIG: Config = Config { unit_bytes: UNIT_BYTES, chunks_max: 64, head_bytes: 0 };

fn allocator() -> Allocator<Fixed, Arena> {
    Allocator::new(Arena::new(4, 0), CONFIG).unwrap()
}

fn pages(a: &mut Allocator<Fixed, Arena>, count: usize) -> Vec<Offset> {
    (0..count).map(|_| a.alloc(PAGE_BYTES, PAGE_BYTES, Growth::Allowed).unwrap()).collect()
}

#[test]
fn pages_are_populated_as_objects_come_to_lie_on_them() {
    let mut a = allocator();
    assert_eq!(a.alloc(4, 4, Growth::PopulatedOnly), Err(AllocError::NotPopulated));
    a.alloc(4, 4, Growth::Allowed).unwrap();
    assert_eq!(a.populated_pages_of(0), 0b1);
    a.alloc(2 * PAGE_BYTES, 4, Growth::Allowed).unwrap();
    assert_eq!(a.populated_pages_of(0), 0b111);
    // Populated memory only: what is left of the third page, no more.
    let rest = PAGE_BYTES - 4;
    assert_eq!(a.alloc(rest + 4, 4, Growth::PopulatedOnly), Err(AllocError::NotPopulated));
    assert!(a.alloc(rest, 4, Growth::PopulatedOnly).is_ok());
    a.verify(Promise::FIXED).unwrap();
}

#[test]
fn balance_keeps_pages_at_hand_for_requests_that_must_not_grow() {
    let mut a = allocator();
    let _ = a.alloc(PAGE_BYTES, 4, Growth::PopulatedOnly);
    assert!(a.balance_wanted());
    a.balance();
    assert!(!a.balance_wanted());
    assert_eq!(a.statistics().empty_pages, 4);
    for _ in 0..4 {
        a.alloc(PAGE_BYTES, 4, Growth::PopulatedOnly).unwrap();
    }
    assert_eq!(a.alloc(4, 4, Growth::PopulatedOnly), Err(AllocError::NotPopulated));
    a.verify(Promise::FIXED).unwrap();
}

#[test]
fn a_request_that_must_not_grow_skips_pages_that_are_not_populated() {
    let mut a = allocator();
    let objects = pages(&mut a, 8);
    // Pages 1 and 2 free and given back, page 5 free and kept.
    for page in [1, 2, 5] {
        a.free(objects[page]).unwrap();
    }
    assert!(a.trim() > 0);
    let again = a.alloc(PAGE_BYTES, PAGE_BYTES, Growth::Allowed).unwrap();
    assert_eq!(again, objects[1]);
    a.free(objects[7]).unwrap();
    let small = a.alloc(64, 64, Growth::PopulatedOnly).unwrap();
    assert_eq!(small, objects[7]);
    a.verify(Promise::FIXED).unwrap();
}

#[test]
fn small_requests_fill_the_first_hole_that_fits() {
    let mut a = allocator();
    let objects: Vec<Offset> =
        (0..300).map(|_| a.alloc(100, 4, Growth::Allowed).unwrap()).collect();
    for index in [20, 50, 51, 120] {
        a.free(objects[index]).unwrap();
    }
    let mut alloc = |size, align| a.alloc(size, align, Growth::Allowed).unwrap();
    assert_eq!(alloc(104, 4), objects[50]);
    assert_eq!(alloc(100, 4), objects[20]);
    assert_eq!(alloc(96, 4).bytes(), objects[50].bytes() + 104);
    assert_eq!(alloc(32, 64).bytes(), objects[120].bytes().next_multiple_of(64));
    a.verify(Promise::FIXED).unwrap();
}

#[test]
fn free_chunks_are_destroyed_but_one() {
    let mut a = allocator();
    let objects = pages(&mut a, 40);
    assert_eq!(a.statistics().chunks, 5);
    for object in objects {
        a.free(object).unwrap();
    }
    assert!(a.balance_wanted());
    a.balance();
    assert_eq!(a.statistics().chunks, 1);
    a.verify(Promise::FIXED).unwrap();
    a.trim();
    assert_eq!(a.statistics().chunks, 0);
    assert_eq!(a.statistics().populated_pages, 0);
    a.verify(Promise::FIXED).unwrap();
}

#[test]
fn empty_pages_of_chunks_in_use_are_given_back_and_the_chunks_used_again() {
    let mut a = allocator();
    let objects = pages(&mut a, 32);
    // Three of four chunks keep one object each.
    for (index, object) in objects.iter().enumerate().skip(8) {
        if index % 8 != 0 {
            a.free(*object).unwrap();
        }
    }
    assert!(a.balance_wanted());
    a.balance();
    a.verify(Promise::FIXED).unwrap();
    let labels: Vec<_> = (0..4).map(|c| a.chunk_statistics(c).unwrap().label).collect();
    assert!(labels.contains(&ChunkLabel::Sidelined), "{labels:?}");
    assert!(!labels.contains(&ChunkLabel::ToDepopulate));
    assert!(a.counters().pages_depopulated > 0);
    // A sidelined chunk is used before a new one is made.
    while a.statistics().objects < 32 {
        a.alloc(PAGE_BYTES, PAGE_BYTES, Growth::Allowed).unwrap();
        a.verify(Promise::FIXED).unwrap();
    }
    assert_eq!(a.statistics().chunks, 4);
}

#[test]
fn the_hidden_head_is_never_handed_out_or_given_back() {
    let config = Config { head_bytes: 16 << 10, ..CONFIG };
    let mut a = Allocator::<Fixed, _>::new(Arena::new(1, 16 << 10), config).unwrap();
    // Does not fit beside the head: a second chunk is made for it.
    let large = a.alloc(UNIT_BYTES, 4, Growth::Allowed).unwrap();
    assert_eq!(large.bytes(), UNIT_BYTES);
    let small = a.alloc(4, 4, Growth::Allowed).unwrap();
    assert_eq!(small.bytes(), 16 << 10);
    a.free(large).unwrap();
    a.free(small).unwrap();
    a.trim();
    assert_eq!(a.populated_pages_of(0), 0b1111);
    assert_eq!(a.statistics().chunks, 1);
    assert_eq!(a.chunk_statistics(0).unwrap().label, ChunkLabel::First);
    a.verify(Promise::FIXED).unwrap();
}
