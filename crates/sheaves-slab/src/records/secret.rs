//! Words that an attacker does not know: the keys of canaries, and the order in which what is free
//! is allocated. Each has words of its own, so that nothing follows from one about another.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::process;

/// The keys of [`canary`].
static KEYS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// Where [`shuffle`] begins, and by what it goes on.
static ORDER: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Asks the kernel for all of them, once: when the first hardened cache is made, which in a
/// hardened process is when the heap starts. Later, in a sandbox, it may not be able to. Under the
/// registry lock.
pub(crate) fn draw() {
    if get(&KEYS)[0] == 0 {
        // Relaxed: published with the cache.
        let draw =
            |word: &AtomicUsize| word.store(process::random() as usize | 1, Ordering::Relaxed);
        KEYS.iter().chain(&ORDER).rev().for_each(draw);
    }
}

#[inline]
fn get(words: &[AtomicUsize; 2]) -> [usize; 2] {
    // Relaxed: constants once a hardened cache exists.
    [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)]
}

/// Both halves of a product in one word: neither factor follows from it, as from one half (the step
/// of wyhash, Wang Yi 2019).
#[inline]
fn fold(left: usize, right: usize) -> usize {
    let product = left as u128 * right as u128;
    product as usize ^ (product >> 64) as usize
}

/// The canary of an object. Its first byte in memory is 0, so that a string without an end is not
/// read on into it. It cannot be inverted: one canary tells neither key, and so no other canary.
#[inline]
pub(super) fn canary(object: usize) -> usize {
    let [first, second] = get(&KEYS);
    fold(fold(object ^ first, second) ^ second, first) << 8
}

/// Brings objects into a random order (Fisher and Yates), by wyrand (Wang Yi 2019).
pub(crate) fn shuffle(objects: &mut [usize]) {
    /// 2^64 over the golden ratio.
    const STEP: usize = 0x9E37_79B9_7F4A_7C15;
    static STATE: AtomicUsize = AtomicUsize::new(0);
    let [first, second] = get(&ORDER);
    // A word has four numbers of 16 bits: enough for a choice among the objects of a sheaf.
    let taken = objects.len().div_ceil(4).wrapping_mul(STEP);
    // Relaxed: each call has words of its own.
    let mut state = first.wrapping_add(STATE.fetch_add(taken, Ordering::Relaxed));
    let (mut bits, mut left) = (0, 0);
    for index in (1..objects.len()).rev() {
        if left == 0 {
            (bits, left) = (fold(state, state ^ second), 4);
            state = state.wrapping_add(STEP);
        }
        // The high part of the product is below `index + 1`.
        objects.swap(index, ((bits & 0xffff) * (index + 1)) >> 16);
        (bits, left) = (bits >> 16, left - 1);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/secret.rs"]
mod tests;
