//! The inlined forms of pop and push as functions, each with one section of its own.
//!
//! Portable engines refuse them always.

use sheaves_percpu::{Access, Word};

#[inline(never)]
pub(crate) fn pop(word: Word) -> usize {
    sheaves_percpu::pop(Access::get(), word)
}

/// # Safety
/// As [`sheaves_percpu::push`].
#[inline(never)]
pub(crate) unsafe fn push(word: Word, object: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { sheaves_percpu::push(Access::get(), word, object) }
}
