//! Populating and depopulating pages.

use crate::dynamic::{Allocator, Config, PAGE_BYTES};

use super::arena::Arena;
use super::tester::{balance, trim};

const UNIT_BYTES: usize = 32 << 10;
const CONFIG: Config = Config { unit_bytes: UNIT_BYTES, chunks_max: 64 };

fn allocator() -> Allocator<Arena> {
    Allocator::new(Arena::new(), CONFIG).unwrap()
}

fn pages(a: &mut Allocator<Arena>, count: usize) -> Vec<usize> {
    (0..count).map(|_| a.alloc(PAGE_BYTES, PAGE_BYTES).unwrap()).collect()
}

#[test]
fn pages_are_populated_as_objects_come_to_lie_on_them() {
    let mut a = allocator();
    a.alloc(4, 4).unwrap();
    assert_eq!(a.populated_pages_of(0), 0b1);
    a.alloc(2 * PAGE_BYTES, 4).unwrap();
    assert_eq!(a.populated_pages_of(0), 0b111);
    a.verify().unwrap();
}

#[test]
fn small_requests_fill_the_first_hole_that_fits() {
    let mut a = allocator();
    let objects: Vec<usize> = (0..300).map(|_| a.alloc(100, 4).unwrap()).collect();
    for index in [20, 50, 51, 120] {
        a.free(objects[index]).unwrap();
    }
    let mut alloc = |size, align| a.alloc(size, align).unwrap();
    assert_eq!(alloc(104, 4), objects[50]);
    assert_eq!(alloc(100, 4), objects[20]);
    assert_eq!(alloc(96, 4), objects[50] + 104);
    assert_eq!(alloc(32, 64), objects[120].next_multiple_of(64));
    a.verify().unwrap();
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
    balance(&mut a);
    assert_eq!(a.statistics().chunks, 1);
    a.verify().unwrap();
    trim(&mut a);
    assert_eq!(a.statistics().chunks, 0);
    assert_eq!(a.statistics().populated_pages, 0);
    a.verify().unwrap();
}

#[test]
fn a_call_looks_at_few_chunks_and_returns_the_pages_of_one() {
    const CHUNKS: usize = 200;
    let config = Config { chunks_max: CHUNKS, ..CONFIG };
    let mut a = Allocator::new(Arena::new(), config).unwrap();
    let mut objects = pages(&mut a, CHUNKS * UNIT_BYTES / PAGE_BYTES);
    // The last chunk has no object, and the others have nothing to give.
    for object in objects.drain(objects.len() - 8..) {
        a.free(object).unwrap();
    }
    assert_eq!((a.trim(0), a.trim(64), a.trim(128)), (Some(64), Some(128), Some(192)));
    assert_eq!(a.statistics().chunks, 200);
    assert_eq!((a.trim(192), a.trim(200), a.statistics().chunks), (Some(200), None, 199));
    for object in objects {
        a.free(object).unwrap();
    }
    for chunks in (1..199).rev() {
        assert!(a.balance_wanted());
        a.balance();
        assert_eq!(a.statistics().chunks, chunks);
    }
    balance(&mut a);
    assert_eq!((a.trim(0), a.trim(1), a.statistics().populated_pages), (Some(1), None, 0));
    a.verify().unwrap();
}

#[test]
fn a_trim_leaves_nothing_to_balance() {
    let mut a = allocator();
    for object in pages(&mut a, 3 * UNIT_BYTES / PAGE_BYTES) {
        a.free(object).unwrap();
    }
    assert!(a.balance_wanted());
    trim(&mut a);
    assert!(!a.balance_wanted());
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
    balance(&mut a);
    a.verify().unwrap();
    assert!((0..4).any(|chunk| a.is_sidelined(chunk)));
    assert!(a.backing().pages_given_back > 0);
    // A sidelined chunk is used before a new one is created.
    while a.statistics().objects() < 32 {
        a.alloc(PAGE_BYTES, PAGE_BYTES).unwrap();
        a.verify().unwrap();
    }
    assert_eq!(a.statistics().chunks, 4);
}
