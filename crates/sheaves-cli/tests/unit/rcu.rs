//! Tests of private items of `src/rcu/mod.rs`.

use super::*;

#[test]
fn percentiles_are_bounds_of_the_histogram() {
    let lengths = vec![0, 50, 0, 40, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 1, 0];
    let periods = GracePeriods { lengths, lengths_us: 4200, ..GracePeriods::default() };
    let mut text = String::new();
    write_lengths(&mut text, &periods).unwrap();
    let (first, bars) = text.split_once('\n').unwrap();
    let says = "mean 42 us; half below 2 us, 90 % below 8 us, 99 % below 1024 us, all below 32 ms";
    assert_eq!(first, format!("length of grace periods: {says}"));
    let bounds: Vec<_> = bars.lines().map(|line| &line[..16]).collect();
    assert_eq!(
        bounds,
        ["  below     2 us", "  below     8 us", "  below  1024 us", "  below    32 ms"]
    );
}
