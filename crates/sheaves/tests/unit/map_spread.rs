//! Tests of how keys spread whose hashes differ in a few bits only.

extern crate std;
use super::*;
use std::vec;

const BUCKETS: u64 = 1 << 12;

/// For each hash maker: the entries of the fullest of as many buckets as there are hashes, and of
/// the most frequent tag. Random hashes have about 7, and 60.
fn fullest(hash: impl Fn(u64) -> u64) -> [usize; 2] {
    let (mut buckets, mut tags) = (vec![0; BUCKETS as usize], vec![0; 128]);
    for number in 0..BUCKETS {
        let hash = spread(hash(number));
        buckets[(hash % BUCKETS) as usize] += 1;
        tags[(hash >> 57) as usize] += 1;
    }
    [buckets, tags].map(|counts| counts.into_iter().max().unwrap())
}

#[test]
fn numbers_and_addresses_spread_with_weak_hashes() {
    let fx = |number: u64| number.wrapping_mul(0x517c_c1b7_2722_0a95);
    for shift in [0, 3, 4, 8, 12, 20, 32, 40, 48, 52] {
        let address = |number: u64| 0x7f3a_5c00_0000 + (number << shift.min(20));
        let hashes = [
            fullest(|number| number << shift),
            fullest(|number| fx(number << shift)),
            fullest(address),
            fullest(|number| fx(address(number))),
        ];
        for [bucket, tag] in hashes {
            assert!(bucket <= 12 && tag <= 200, "{shift}: {hashes:?}");
        }
    }
}
