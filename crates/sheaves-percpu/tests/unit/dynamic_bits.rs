//! Tests of private items of `dynamic/bits`.

use super::*;

/// A map with holes of every kind; bit `n` is one exactly when `naive(n)`.
const MAP: [u64; 4] = [0xFFFF_0000_F0F0_0001, 0, u64::MAX, 0x8000_0000_0000_0000];

fn naive(bit: u32) -> bool {
    MAP[(bit / 64) as usize] >> (bit % 64) & 1 != 0
}

#[test]
fn searches_agree_with_bit_by_bit() {
    for end in 0..=256 {
        for from in 0..=end {
            let zero = (from..end).find(|bit| !naive(*bit)).unwrap_or(end);
            let one = (from..end).find(|bit| naive(*bit)).unwrap_or(end);
            let start = (from..end).rev().find(|bit| naive(*bit)).map_or(from, |bit| bit + 1);
            assert_eq!(next_zero(&MAP, from, end), zero);
            assert_eq!(next_one(&MAP, from, end), one);
            assert_eq!(run_start(&MAP, end, from), start);
        }
    }
}

#[test]
fn runs_agree_with_bit_by_bit() {
    for from in 0..=256 {
        for (count, align) in [(1, 1), (2, 1), (3, 4), (8, 8), (5, 16), (64, 1), (33, 128)] {
            let fits = |at: u32, end| at + count <= end && !(at..at + count).any(naive);
            for end in [from, 200, 256] {
                let run = (from..end).find(|at| at % align == 0 && fits(*at, end));
                assert_eq!(zero_run(&MAP, from, end, count, align - 1), run);
            }
        }
    }
}

#[test]
fn ranges_agree_with_bit_by_bit() {
    for end in 0..=256 {
        for start in 0..=end {
            let mut map = MAP;
            clear_range(&mut map, start, end);
            assert!((0..256).all(|b| is_one(&map, b) == (naive(b) && !(start..end).contains(&b))));
            let mut map = MAP;
            set_range(&mut map, start, end);
            assert!((0..256).all(|b| is_one(&map, b) == (naive(b) || (start..end).contains(&b))));
        }
    }
}

#[test]
fn ends_agree_with_bit_by_bit() {
    for end in 1..=255 {
        for start in 0..end {
            let mut map = MAP;
            mark_ends(&mut map, start, end);
            let wanted = |bit| match bit {
                _ if bit == start || bit == end => true,
                _ if bit > start && bit < end => false,
                _ => naive(bit),
            };
            assert!((0..256).all(|bit| is_one(&map, bit) == wanted(bit)));
        }
    }
}

#[test]
fn positions_beyond_the_map_are_ends() {
    assert_eq!(next_zero(&MAP, 255, 1000), 1000);
    assert_eq!(next_one(&MAP, 256, 1000), 1000);
    assert!(!is_one(&MAP, 256));
}
