//! Transactions on words that hold any numbers, and drains as lists of numbers.

use sheaves_percpu::internal::{Cursor, Word, slots};

fn cursor(number: usize) -> Cursor {
    // SAFETY: transactions and drains only compare, store and return it.
    unsafe { Cursor::from_bits(number) }
}

pub(crate) fn vacant() -> usize {
    Cursor::VACANT.bits()
}

pub(crate) fn load(word: Word) -> usize {
    sheaves_percpu::internal::load(word).bits()
}

/// # Safety
/// As [`sheaves_percpu::internal::cmp_store`].
pub(crate) unsafe fn cmp_store(word: Word, expected: usize, new: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { sheaves_percpu::internal::cmp_store(word, cursor(expected), cursor(new)) }
}

/// The object, or 1.
pub(crate) fn pop_slow(word: Word) -> usize {
    sheaves_percpu::internal::pop_slow(word).unwrap_or(1)
}

pub(crate) fn is_sentinel(entry: usize) -> bool {
    entry % 2 == 1
}

pub(crate) fn drain(words: &[Word], take: &mut dyn FnMut(usize, usize)) -> bool {
    slots::drain(words, slots::ALL, &mut |index, cursor| take(index, cursor.bits()))
}

pub(crate) fn observe(words: &[Word], see: &mut dyn FnMut(usize, usize)) {
    slots::observe(words, &mut |index, _, cursor| see(index, cursor.bits()));
}
