//! Tests of private items of `records/profile/chance`.

extern crate std;

use super::*;

#[test]
fn logarithm_and_exponential_agree_with_the_standard_library() {
    for number in [1e-16, 1e-9, 0.001, 0.1, 0.3, 0.5, 0.75, 0.999_999, 1.0] {
        assert!((ln(number) - f64::ln(number)).abs() < 1e-11 * (1.0 + f64::ln(number).abs()));
    }
    for number in [-1e-9, -3e-5, -0.001, -0.1, -0.5, -0.7, -1.0, -3.0, -20.0, -39.0] {
        let (ours, theirs) = (1.0 - exp(number), -f64::exp_m1(number));
        assert!((ours - theirs).abs() < 1e-6 * theirs, "{number}: {ours} {theirs}");
    }
    assert_eq!(exp(-1e9).to_bits(), 0.0_f64.to_bits());
}

#[test]
fn skips_are_exponential() {
    const COUNT: usize = 200_000;
    const RATE: usize = 4096;
    let (mut sum, mut above) = (0.0, 0);
    for _ in 0..COUNT {
        let skip = skip_bytes(RATE);
        assert!(skip >= 0.0);
        sum += skip;
        above += usize::from(skip > 2.0 * RATE as f64);
    }
    // Six standard errors each.
    let mean = sum / COUNT as f64 / RATE as f64;
    assert!((mean - 1.0).abs() < 6.0 / (COUNT as f64).sqrt(), "mean {mean}");
    let share = above as f64 / COUNT as f64;
    assert!((share - (-2.0_f64).exp()).abs() < 6.0 * 0.35 / (COUNT as f64).sqrt(), "{share}");
}

#[test]
fn weights_are_the_reciprocal_of_the_chance() {
    assert_eq!(weight(1 << 30, 1), WEIGHT_ONE);
    let weight = weight(16, 512 << 10) as f64 / WEIGHT_ONE as f64;
    assert!((weight - 32768.5).abs() < 0.1, "{weight}");
}

/// In parts of 1 to 31 objects, as a slot takes them, and with a rate near the size of an object,
/// so that many objects hold more than one point.
#[test]
fn objects_are_samples_as_often_as_they_should_be() {
    const PARTS: usize = 100_000;
    for (bytes, rate) in [(64, 4096), (1024, 2048)] {
        let (mut objects, mut samples) = (0, 0);
        for part in 0..PARTS {
            let mut count = 1 + part % 31;
            objects += count;
            while let Some(first) = first_sample(count, bytes, rate) {
                assert!(first < count);
                samples += 1;
                count -= first + 1;
            }
        }
        let expected = objects as f64 * chance(bytes, rate);
        // Six standard errors.
        let deviation = (f64::from(samples) - expected).abs();
        assert!(deviation < 6.0 * expected.sqrt(), "{samples} of {expected}");
    }
}
