//! Words that an attacker does not know: the keys of canaries, and the order in which what is free
//! is allocated. Each has words of its own, so that nothing follows from one about another.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::process;

/// The keys of [`canary`].
static KEYS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// Where [`Order`] begins, and by what it goes on.
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

/// Draws for a random order (Fisher and Yates), by wyrand (Wang Yi 2019).
pub(crate) struct Order {
    state: usize,
    key: usize,
    bits: usize,
    drawn: usize,
}

impl Order {
    /// 2^64 over the golden ratio.
    const STEP: usize = 0x9E37_79B9_7F4A_7C15;
    /// Draws that take their bits from one word, which is enough for the objects of a sheaf.
    const DRAWS: usize = 4;

    /// For as many draws.
    pub(crate) fn new(draws: usize) -> Order {
        static STATE: AtomicUsize = AtomicUsize::new(0);
        let [first, key] = get(&ORDER);
        // Relaxed: each call has words of its own.
        let taken = draws.div_ceil(Order::DRAWS).wrapping_mul(Order::STEP);
        let state = first.wrapping_add(STATE.fetch_add(taken, Ordering::Relaxed));
        Order { state, key, bits: 0, drawn: 0 }
    }

    /// A number below another one.
    #[inline(always)]
    pub(crate) fn below(&mut self, end: usize) -> usize {
        if self.drawn.is_multiple_of(Order::DRAWS) {
            self.bits = fold(self.state, self.state ^ self.key);
            self.state = self.state.wrapping_add(Order::STEP);
        }
        self.drawn += 1;
        // The high half is below `end`, the low one is as random as before.
        let product = self.bits as u128 * end as u128;
        self.bits = product as usize;
        (product >> 64) as usize
    }
}

#[cfg(test)]
#[path = "../../tests/unit/secret.rs"]
mod tests;
