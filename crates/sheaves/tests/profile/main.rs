//! Heap profiles of Rust programs: each place has what it allocated, while other places allocate
//! and free blocks of the same size in between.

mod kinds;
mod places;

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sheaves::heap::profile;
use sheaves::{ProfiledSheaves, Sheaves};

const RATE: usize = 4096;
const KEPT: usize = 6000;
const SIZE: usize = 200;
const PLACES: usize = 4;

/// One test at a time: there is one profile.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn layout() -> Layout {
    Layout::from_size_align(black_box(SIZE), 8).unwrap()
}

/// Different functions, although they do the same.
#[inline(never)]
fn place<const NUMBER: usize, A: GlobalAlloc>(heap: &A) -> *mut u8 {
    // SAFETY: the layout has a size.
    let block = unsafe { heap.alloc(layout()) };
    assert!(!block.is_null());
    // SAFETY: the block is as large.
    unsafe { block.write(NUMBER as u8) };
    block
}

#[inline(never)]
fn other<A: GlobalAlloc>(heap: &A) -> *mut u8 {
    // SAFETY: the layout has a size.
    let block = unsafe { heap.alloc(layout()) };
    assert!(!black_box(block).is_null());
    block
}

/// Keeps blocks of each place, and returns the estimates of each place and of all else.
fn estimates<A: GlobalAlloc>(heap: &A, is_late: bool) -> ([u64; PLACES], u64) {
    let _alone = alone();
    let functions = [place::<0, A>, place::<1, A>, place::<2, A>, place::<3, A>]
        .map(|place| place as fn(&A) -> _);
    if !is_late {
        assert!(profile::start(RATE));
    }
    let mut ring: Vec<*mut u8> = (0..1000).map(|_| other(heap)).collect();
    let mut seed = 7_u64;
    let mut churn = |heap: &A| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let index = (seed >> 33) as usize % ring.len();
        // SAFETY: from this heap, with this layout, and not used after.
        unsafe { heap.dealloc(ring[index], layout()) };
        ring[index] = other(heap);
        // SAFETY: as above.
        unsafe { heap.dealloc(other(heap), layout()) };
    };
    (0..20_000).for_each(|_| churn(heap));
    if is_late {
        assert!(profile::start(RATE));
    }
    let mut kept = Vec::with_capacity(KEPT * PLACES);
    for _ in 0..KEPT {
        for function in functions {
            kept.push(function(heap));
            churn(heap);
        }
    }
    let mut text = String::new();
    profile::dump(&mut text).unwrap();
    profile::stop();
    for block in kept.into_iter().chain(ring) {
        // SAFETY: from this heap, with this layout, and not used after.
        unsafe { heap.dealloc(block, layout()) };
    }
    sum(&text, functions.map(|function| function as usize), other::<A> as fn(&A) -> _ as usize)
}

/// The objects of a dump that lie in the class of [`SIZE`], by the function that allocated them.
fn sum(text: &str, functions: [usize; PLACES], other: usize) -> ([u64; PLACES], u64) {
    let mut by_start = HashMap::<usize, u64>::new();
    let starts: Vec<usize> = functions.into_iter().chain([other]).collect();
    for line in text.lines().filter(|line| line.starts_with("site live malloc malloc-208 ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let objects = words[5].parse::<u64>().unwrap();
        let leaf = usize::from_str_radix(words.get(9).unwrap_or(&"0"), 16).unwrap();
        let below = starts.iter().filter(|start| (**start..**start + 400).contains(&leaf));
        *by_start.entry(below.max().copied().unwrap_or(0)).or_default() += objects;
    }
    let of = |start: &usize| by_start.get(start).copied().unwrap_or(0);
    (functions.each_ref().map(of), of(&other) + of(&0))
}

/// Within five per cent and five standard errors.
#[track_caller]
fn assert_near(found: u64, expected: usize, what: &str) {
    let chance = 1.0 - (-208.0 / RATE as f64).exp();
    let error = (expected as f64 * (1.0 - chance) / chance).sqrt();
    let deviation = (found as f64 - expected as f64).abs();
    assert!(deviation <= 0.05 * expected as f64 + 5.0 * error, "{what}: {found} of {expected}");
}

/// Also where frees know the layout, and are noted when their sheaf leaves its word.
#[test]
fn each_place_has_what_it_allocated() {
    for (is_late, by_layout) in [(false, false), (true, false), (false, true), (true, true)] {
        let (places, other) = match by_layout {
            true => estimates(&Sheaves, is_late),
            false => estimates(&ProfiledSheaves, is_late),
        };
        for found in places {
            assert_near(found, KEPT, "kept");
        }
        if !is_late {
            assert_near(other, 1000, "others");
        }
    }
}
