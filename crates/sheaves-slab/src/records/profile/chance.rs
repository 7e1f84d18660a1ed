//! The random numbers and the weights of samples. Floating point without `std`.
//!
//! Samples are a Poisson process over the bytes that are allocated: on average one in `rate` bytes.
//! An object of s bytes is a sample if a point lies in it, so with probability 1 - exp(-s / rate),
//! and then stands for 1 / (1 - exp(-s / rate)) objects.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::internal::current_slot;
use sheaves_sys::process;

/// Weights are integers, so that what was added can be subtracted: units of 1 / 256 object.
pub(crate) const WEIGHT_ONE: u64 = 256;

/// How many whole objects, or bytes, weights stand for.
pub(crate) fn whole(weights: u64) -> u64 {
    (weights + WEIGHT_ONE / 2) / WEIGHT_ONE
}

/// A random number above 0, up to 1: 53 random bits.
fn unit() -> f64 {
    ((random() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// Bytes to the next sample: exponential, with mean `rate`.
pub(crate) fn skip_bytes(rate: usize) -> f64 {
    -ln(unit()) * rate as f64
}

/// True with a probability.
pub(crate) fn happens(probability: f64) -> bool {
    unit() <= probability
}

/// The probability that an object of `bytes` is a sample.
pub(crate) fn chance(bytes: usize, rate: usize) -> f64 {
    1.0 - exp(-(bytes as f64) / rate as f64)
}

/// How many objects a sample of `bytes` stands for, in [`WEIGHT_ONE`]s.
pub(crate) fn weight(bytes: usize, rate: usize) -> u64 {
    (WEIGHT_ONE as f64 / chance(bytes, rate) + 0.5) as u64
}

/// The first of `count` objects of `bytes` each that is a sample.
///
/// A slot's objects follow each other on one line, of which each call takes the next part: so most
/// calls only subtract, and a random number is drawn for each sample.
pub(crate) fn first_sample(count: usize, bytes: usize, rate: usize) -> Option<usize> {
    let state = State::current();
    // Relaxed: see `State`.
    let mut left = f64::from_bits(state.distance.load(Ordering::Relaxed));
    if left == 0.0 {
        left = -ln(unit());
    }
    let each = bytes as f64 / rate as f64;
    let all = count as f64 * each;
    let is_one = left < all;
    // What lies behind a sample starts with the next object.
    let rest = if is_one { -ln(unit()) } else { left - all };
    // Relaxed: as above.
    state.distance.store(rest.to_bits(), Ordering::Relaxed);
    is_one.then(|| ((left / each) as usize).min(count - 1))
}

/// The states, one for each slot and 64.
static STATES: [State; 64] =
    [const { State { number: AtomicU64::new(0), distance: AtomicU64::new(0) } }; 64];

/// On a cache line of its own. No locked instructions: if two threads get one number, or take one
/// part of the line, each sample is still as likely as it should be.
#[repr(align(64))]
struct State {
    /// Of the generator; 0 before the first number.
    number: AtomicU64,
    /// From the end of what [`first_sample`] has looked at to the next sample, an `f64` in units of
    /// the mean; 0 if it is not drawn yet.
    distance: AtomicU64,
}

impl State {
    fn current() -> &'static State {
        &STATES[current_slot() as usize % STATES.len()]
    }
}

/// Splitmix64 (Steele, Lea, Flood 2014).
fn random() -> u64 {
    let state = State::current();
    // Relaxed, both: see `State`.
    let mut number = state.number.load(Ordering::Relaxed);
    if number == 0 {
        number = (process::random_seed() ^ core::ptr::from_ref(state).addr() as u64) | 1;
    }
    number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    state.number.store(number, Ordering::Relaxed);
    process::scramble(number)
}

/// Natural logarithm of a positive, normal number.
fn ln(number: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & MANTISSA | 1023 << 52);
    // ln m = 2 artanh((m - 1) / (m + 1)), with m from 1 to 2.
    let step = (mantissa - 1.0) / (mantissa + 1.0);
    let (square, mut term, mut sum) = (step * step, step, 0.0);
    for odd in 0..12 {
        sum += term / f64::from(2 * odd + 1);
        term *= square;
    }
    f64::from(exponent) * core::f64::consts::LN_2 + 2.0 * sum
}

/// The exponential function of a number that is not positive. `1.0 - exp(x)` is exact to 1e-12
/// relative to `x`, or near it.
fn exp(number: f64) -> f64 {
    if number < -40.0 {
        return 0.0;
    }
    // exp(x) = exp(x / 2^k)^(2^k), with x / 2^k above -1/2.
    let (mut part, mut doublings) = (number, 0);
    while part < -0.5 {
        part /= 2.0;
        doublings += 1;
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for index in 1..16 {
        term *= part / f64::from(index);
        sum += term;
    }
    (0..doublings).fold(sum, |power, _| power * power)
}

#[cfg(test)]
#[path = "../../../tests/unit/profile_chance.rs"]
mod tests;
