//! Numbers that guide decisions. Being off by a little is harmless.

use core::sync::atomic::{AtomicUsize, Ordering};

/// A number through which nothing is published: what it leads to is under locks, or is checked.
#[derive(Debug)]
pub(crate) struct Hint(AtomicUsize);

// Relaxed, all: see above.
impl Hint {
    pub(crate) const fn new(value: usize) -> Hint {
        Hint(AtomicUsize::new(value))
    }

    #[inline]
    pub(crate) fn get(&self) -> usize {
        // Relaxed: a hint.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: usize) {
        // Relaxed: a hint.
        self.0.store(value, Ordering::Relaxed);
    }

    /// [`Hint::set`] in the child of a fork.
    pub(crate) fn restart(&self, value: usize) {
        sheaves_sys::restart_word!(self.0, value);
    }

    pub(crate) fn swap(&self, value: usize) -> usize {
        // Relaxed: a hint.
        self.0.swap(value, Ordering::Relaxed)
    }

    pub(crate) fn add(&self, value: usize) -> usize {
        // Relaxed: a hint.
        self.0.fetch_add(value, Ordering::Relaxed)
    }

    pub(crate) fn sub(&self, value: usize) {
        // Relaxed: a hint.
        self.0.fetch_sub(value, Ordering::Relaxed);
    }

    /// [`Hint::sub`], down to 0.
    pub(crate) fn sub_to_zero(&self, value: usize) {
        let less = |before: usize| Some(before.saturating_sub(value));
        // Relaxed, both: a hint.
        let _before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}
