extern crate std;

use std::vec::Vec;

use super::*;

const MIB: usize = 1 << 20;

fn idle(ranges: &[Pages]) -> Idle {
    let mut idle = Idle::new();
    for (number, (address, bytes)) in ranges.iter().enumerate() {
        assert!(idle.put(*address, *bytes, number as u64).is_none());
    }
    idle
}

#[test]
fn the_smallest_range_that_fits_is_taken() {
    let mut idle = idle(&[(100 * MIB, 9 * MIB), (200 * MIB, 3 * MIB), (300 * MIB, 5 * MIB)]);
    assert_eq!(idle.take(4 * MIB, 1), Some((300 * MIB, 5 * MIB)), "up to a quarter more");
    assert_eq!(idle.take(4 * MIB, 1), Some((100 * MIB, 4 * MIB)), "the rest of 5 MiB stays");
    assert_eq!(idle.bytes(), 8 * MIB);
    assert_eq!(idle.take(6 * MIB, 1), None);
    assert_eq!(idle.take(MIB, 1 << 23), Some((200 * MIB, MIB)), "the one that is aligned");
    assert!(idle.has(5 * MIB, 1) && !idle.has(5 * MIB + 1, 1));
}

#[test]
fn a_block_that_grows_gets_the_largest_range() {
    let mut idle = idle(&[(100 * MIB, 9 * MIB), (200 * MIB, 30 * MIB), (300 * MIB, 5 * MIB)]);
    assert_eq!(idle.take_of_largest(31 * MIB), None);
    assert_eq!(idle.take_of_largest(4 * MIB), Some((200 * MIB, 4 * MIB)));
    assert!(idle.extend(204 * MIB, 26 * MIB));
    assert_eq!(idle.take_of_largest(8 * MIB), Some((100 * MIB, 9 * MIB)), "a quarter more");
}

#[test]
fn neighbours_are_joined_and_blocks_grow_into_the_rest() {
    let mut idle = idle(&[(10 * MIB, MIB), (12 * MIB, MIB)]);
    assert!(idle.put(11 * MIB, MIB, 9).is_none());
    assert_eq!((idle.count, idle.bytes()), (1, 3 * MIB));
    assert_eq!(idle.take(MIB, 1), Some((10 * MIB, MIB)));
    assert!(!idle.extend(12 * MIB, MIB), "no range begins there");
    assert!(!idle.extend(11 * MIB, 3 * MIB), "it is too short");
    assert!(idle.extend(11 * MIB, MIB) && idle.extend(12 * MIB, MIB));
    assert_eq!((idle.count, idle.bytes()), (0, 0));
}

#[test]
fn too_old_and_too_many_bytes_come_back_oldest_first() {
    let mut idle = idle(&[(0, MIB), (10 * MIB, 60 * MIB), (100 * MIB, 20 * MIB)]);
    assert_eq!(idle.surplus(80 * MIB, 0), Some((0, MIB)));
    assert_eq!(idle.surplus(80 * MIB, 0), None);
    assert_eq!(idle.surplus(79 * MIB, 0), Some((10 * MIB, 60 * MIB)));
    assert_eq!(idle.surplus(usize::MAX, 2), None);
    assert_eq!(idle.surplus(usize::MAX, 3), Some((100 * MIB, 20 * MIB)));
}

/// A range that was joined is as old as its oldest part: what is never used goes back.
#[test]
fn use_of_one_part_keeps_no_other_part() {
    let mut idle = idle(&[(0, 8 * MIB)]);
    for now_ms in 1..=100 {
        assert_eq!(idle.take(MIB, 1), Some((0, MIB)));
        assert!(idle.put(0, MIB, now_ms).is_none());
        assert!(idle.surplus(usize::MAX, 0).is_none());
    }
    assert_eq!(idle.surplus(usize::MAX, 1), Some((0, 8 * MIB)));
}

#[test]
fn one_range_too_many_puts_the_smallest_out() {
    let bytes_of = |number| if number == 9 { MIB / 2 } else { MIB };
    let spread = |number| (2 * number * MIB, bytes_of(number));
    let mut idle = idle(&(0..RANGES_MAX).map(spread).collect::<Vec<Pages>>());
    assert_eq!(idle.put(1000 * MIB, MIB, 999), Some((18 * MIB, MIB / 2)));
    assert_eq!((idle.count, idle.bytes()), (RANGES_MAX, RANGES_MAX * MIB));
}

/// In a hardened process what is left has room for its pages, or nothing is left.
#[test]
fn the_end_of_a_range_is_taken() {
    let mut idle = idle(&[(100 * MIB, 9 * MIB), (200 * MIB, 3 * MIB), (300 * MIB, 4 * MIB)]);
    assert_eq!(idle.take_end(4 * MIB, 3, |_| unreachable!()), Some(300 * MIB), "all of it");
    assert_eq!(idle.take_end(3 * MIB - 2, 3, |_| false), None, "the rest is too small");
    assert_eq!(idle.take_end(3 * MIB - 3, 3, |start| start == 200 * MIB + 3), Some(200 * MIB + 3));
    assert_eq!((idle.count, idle.bytes()), (2, 9 * MIB + 3));
    assert!(idle.extend(200 * MIB, 3), "the rest is where it was");
}

/// Against a plain list of pages: none is in two places, and none is lost.
#[test]
fn random_steps_lose_no_page() {
    let mut idle = Idle::new();
    let mut blocks: Vec<Pages> = (0..40).map(|number| (number * 16, 16)).collect();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for now_ms in 0..20_000 {
        if blocks.is_empty() || random(2) == 0 {
            if let Some(pages) = idle.take(random(40) + 1, 1) {
                blocks.push(pages);
            }
        } else {
            let (address, bytes) = blocks.swap_remove(random(blocks.len()));
            blocks.extend(idle.put(address, bytes, now_ms));
        }
        let held = idle.ranges().iter().map(|range| (range.address, range.bytes));
        let mut all: Vec<Pages> = blocks.iter().copied().chain(held).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{all:?}");
        assert_eq!(all.iter().map(|pages| pages.1).sum::<usize>(), 640);
    }
}
