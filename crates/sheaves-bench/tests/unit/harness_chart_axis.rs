//! Tests of `src/harness/chart/axis.rs`.

use super::*;

fn labels(axis: &Axis) -> Vec<String> {
    axis.ticks.iter().map(|tick| axis.format_ext(tick)).collect()
}

fn axis(values: &[f64], is_relative: bool) -> Axis {
    Axis::new(values.iter().copied(), is_relative)
}

#[test]
fn values_of_one_magnitude_begin_at_zero() {
    let axis = axis(&[2.5, 9.0], false);
    assert_eq!((axis.scale, axis.range.start), (Scale::Linear, 0.0));
    assert_eq!(labels(&axis), ["0", "2", "4", "6", "8"]);
    assert_eq!(axis.map(&0.0, (100, 0)), 100);
}

#[test]
fn decades_are_logarithmic_unless_there_is_a_zero() {
    let wide = axis(&[3.0, 2e4], false);
    assert_eq!(labels(&wide), ["10", "100", "1000", "10k"]);
    assert_eq!(wide.map(&3.0, (0, 1000)), 54);
    assert_eq!(labels(&axis(&[1.0, 40.0], false)), ["1", "2", "5", "10", "20"]);
    assert_eq!(axis(&[0.0, 9e4], false).scale, Scale::Linear);
}

#[test]
fn ratios_have_one_on_their_axis_and_need_no_zero() {
    let axis = axis(&[1.2, 1.4], true);
    assert!(axis.range.start > 0.9 && axis.range.contains(&1.0), "{axis:?}");
    assert_eq!(labels(&axis), ["1", "1.1", "1.2", "1.3", "1.4"]);
}

#[test]
fn an_axis_names_a_few_values_whatever_they_are() {
    let extremes = [0.0, -1.0, 1e-300, 1e-9, 1.0, 1.0 + 1e-12, 1e17, f64::MAX];
    for low in extremes {
        for high in extremes {
            for is_relative in [false, true] {
                let ticks = axis(&[low, high], is_relative).ticks.len();
                assert!(ticks <= 9, "{low} {high}: {ticks}");
            }
        }
    }
    assert!(!axis(&[], false).ticks.is_empty());
    assert_eq!(Axis::of_time([0.0, 0.1, 9.0].into_iter()).scale, Scale::Linear);
}

#[test]
fn sizes_are_named_where_there_is_room() {
    let sizes = || (3..=14).map(|power| f64::from(1 << power));
    assert_eq!(labels(&Axis::of_sizes(sizes(), 1000)).len(), 12);
    let few = Axis::of_sizes(sizes(), 300);
    assert_eq!(labels(&few), ["8", "16", "32", "64", "256", "1024", "4096", "16Ki"]);
    assert!(Axis::of_sizes(core::iter::empty(), 300).ticks.is_empty());
}

#[test]
fn numbers_have_three_digits() {
    let cases = [
        (0.0, "0"),
        (0.00012, "1e-4"),
        (0.0423, "0.0423"),
        (0.5, "0.5"),
        (2.483, "2.48"),
        (27.96, "28"),
        (9999.4, "9999"),
        (12_345.0, "12.3k"),
        (999_999.0, "1M"),
        (2.5e9, "2.5G"),
        (-3.0, "-3"),
    ];
    for (value, text) in cases {
        assert_eq!(short(value), text);
    }
}
