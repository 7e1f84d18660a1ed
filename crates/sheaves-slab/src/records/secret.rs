//! Words that an attacker does not know: the keys of canaries, and the order in which what is free
//! is allocated. Each has words of its own, so that nothing follows from one about another.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::process;

/// A random word that stays the same.
struct Secret(AtomicUsize);

/// The keys of [`canary`].
static KEYS: [Secret; 2] = [const { Secret::new() }; 2];
/// Where [`shuffle`] begins, and by what it goes on.
static ORDER: [Secret; 2] = [const { Secret::new() }; 2];

/// Asks the kernel for all of them. When the heap of a hardened process starts: it may not be able
/// to later, in a sandbox.
pub(super) fn draw() {
    for secret in KEYS.iter().chain(&ORDER) {
        secret.get();
    }
}

impl Secret {
    const fn new() -> Secret {
        Secret(AtomicUsize::new(0))
    }

    #[inline]
    fn get(&self) -> usize {
        // Relaxed: a constant, once it is not 0.
        match self.0.load(Ordering::Relaxed) {
            0 => self.draw(),
            word => word,
        }
    }

    #[cold]
    fn draw(&self) -> usize {
        let new = process::random() as usize | 1;
        // Relaxed, both: the exchange has all threads use the same.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.compare_exchange(0, new, success, failure).map_or_else(|other| other, |_| new)
    }
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
    let [first, second] = [KEYS[0].get(), KEYS[1].get()];
    fold(fold(object ^ first, second) ^ second, first) << 8
}

/// Brings objects into a random order (Fisher and Yates), by wyrand (Wang Yi 2019).
pub(crate) fn shuffle(objects: &mut [usize]) {
    /// 2^64 over the golden ratio.
    const STEP: usize = 0x9E37_79B9_7F4A_7C15;
    static STATE: AtomicUsize = AtomicUsize::new(0);
    let [first, second] = [ORDER[0].get(), ORDER[1].get()];
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
