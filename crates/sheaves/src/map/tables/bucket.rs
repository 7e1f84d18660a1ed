//! Buckets: six places with a byte of each hash in front, and the lock of their chain.
//!
//! A reader loads the word of tags ([`Word`]), then the places whose tag matches its hash. It
//! writes nothing and never waits. A writer holds the lock of the first bucket of the chain. The
//! word of a later bucket has tags only. A vacant place may still hold its last entry.
//!
//! Each change of a chain is one store, of a place, a word or a link, after what it leads to. The
//! child of a fork has stores of its parent's threads in their order, see `sheaves_sys::fork`. So a
//! chain whose lock was orphaned is that before or after the change. At most an entry or buckets
//! leak, which were on their way into the chain or out of it. What a move of the chain leaves
//! behind is in `resize`.

use alloc::alloc::handle_alloc_error;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::lock::{MOVED, Word};
use super::tags::{OCCUPIED, Places};
use crate::Sheaves;

/// Entries of a bucket.
pub(in crate::map) const PLACES: usize = 6;

/// A place of a bucket. All zeros is one that was never occupied.
pub(in crate::map) trait Place: Sized {
    /// What it holds of an entry.
    type Content: Copy;
    /// What a bucket has for all of its places. All zeros is that of an empty bucket.
    type Stamp;
    /// Entries that are in no table any more, and are freed when this is dropped.
    type Unlinked;
    /// Bytes of an entry outside the bucket.
    const ENTRY_BYTES: usize;
    /// Nothing of the program runs while a chain is locked.
    const IS_BRIEF: bool;
    /// Average entries per bucket above which a table is too small.
    const ENTRIES_MAX: usize;
    /// Whether removals make a table smaller.
    const SHRINKS: bool;

    /// The content, also of one that was occupied.
    fn load(&self) -> Self::Content;

    /// Occupies it: under the chain's lock, or before other threads reach the bucket. The tag is
    /// published after that.
    fn fill(&self, stamp: &Self::Stamp, content: Self::Content);

    /// Replaces the entry by another one with the same key, under the chain's lock.
    fn replace(&self, content: Self::Content);

    /// An empty list.
    fn unlinked() -> Self::Unlinked;

    /// # Safety
    /// The entry was in a table, and is in none any more. Nothing uses it when the list is dropped.
    unsafe fn unlink(content: Self::Content, list: &mut Self::Unlinked);
}

/// See above. All zeros is an empty bucket.
#[repr(C, align(64))]
pub(in crate::map) struct Bucket<P: Place> {
    pub(super) word: Word,
    /// The next bucket of the chain, once there are more entries than places.
    next: AtomicPtr<Bucket<P>>,
    pub(in crate::map) stamp: P::Stamp,
    pub(in crate::map) places: [P; PLACES],
}

/// An entry and its place.
pub(in crate::map) struct Found<'a, P: Place> {
    bucket: &'a Bucket<P>,
    place: usize,
    pub(in crate::map) content: P::Content,
}

impl<P: Place> Found<'_, P> {
    /// True if the place has this tag now. Otherwise a lookup that began before may have found an
    /// entry that is on its way into a place which became vacant meanwhile: later lookups would not
    /// find it yet.
    #[inline(always)]
    pub(in crate::map) fn is_published(&self, tag: u64) -> bool {
        self.bucket.word() >> (8 * self.place) & 0xFF == tag
    }
}

impl<P: Place> Bucket<P> {
    pub(in crate::map) const BYTES: usize = size_of::<Bucket<P>>();

    /// The word: tags and flags.
    #[inline(always)]
    pub(in crate::map) fn word(&self) -> u64 {
        self.word.load()
    }

    /// What is at a place.
    #[inline(always)]
    pub(in crate::map) fn content(&self, place: usize) -> P::Content {
        self.places[place].load()
    }

    /// The next bucket of the chain.
    ///
    /// # Safety
    /// Buckets of the chain are not freed while the reference is used.
    #[inline(always)]
    pub(in crate::map) unsafe fn next<'a>(&self) -> Option<&'a Bucket<P>> {
        // Acquire pairs with the Release in `add`: the bucket. [M3]
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: null, or a bucket that the caller keeps alive.
        unsafe { next.as_ref() }
    }

    /// Brings it into the CPU's caches.
    #[inline(always)]
    pub(in crate::map) fn prefetch(&self) {
        let start = core::ptr::from_ref(self).addr();
        (0..Self::BYTES).step_by(64).for_each(|line| sheaves_sys::map::prefetch(start + line));
    }

    /// Searches the chain that begins with this bucket, whose word is `word`, for an entry.
    ///
    /// # Safety
    /// Neither the chain's buckets nor its entries are freed during `'a`.
    #[inline(always)]
    pub(in crate::map) unsafe fn find<'a>(
        &'a self,
        word: u64,
        tag: u64,
        mut is_it: impl FnMut(P::Content) -> bool,
    ) -> Option<Found<'a, P>> {
        let (mut bucket, mut word) = (self, word);
        loop {
            for place in Places::matching(word, tag) {
                let content = bucket.content(place);
                if is_it(content) {
                    return Some(Found { bucket, place, content });
                }
            }
            // SAFETY: the caller's contract.
            bucket = unsafe { bucket.next() }?;
            word = bucket.word();
        }
    }

    /// Takes the lock of the chain, if it is free and the entries have not moved.
    #[inline(always)]
    pub(in crate::map) fn lock_free(&self) -> Option<Held<'_, P>> {
        self.word.lock_free().map(|word| Held { first: self, word })
    }

    /// Takes the lock of the chain; also returns whether it was orphaned. `None` if the entries
    /// have moved.
    pub(in crate::map) fn lock(&self) -> Option<(Held<'_, P>, bool)> {
        let (word, is_orphan) = self.word.lock(P::IS_BRIEF)?;
        Some((Held { first: self, word }, is_orphan))
    }

    /// Takes the lock of the chain, without waiting. `None` if another thread keeps it, or if the
    /// entries have moved.
    pub(in crate::map) fn try_lock(&self) -> Option<Held<'_, P>> {
        let (word, _) = self.word.try_lock()?;
        Some(Held { first: self, word })
    }

    /// Adds an entry. Returns the bucket that was added to the chain if no place was vacant.
    ///
    /// Aborts the program when memory is out, as `Box` does.
    /// The caller publishes `word`, which is the first bucket's.
    ///
    /// # Safety
    /// The chain's buckets are not freed, and no other thread changes it.
    #[inline]
    pub(in crate::map) unsafe fn add(
        &self,
        word: &mut u64,
        tag: u64,
        content: P::Content,
    ) -> Option<*const Bucket<P>> {
        if let Some(place) = Places::vacant(*word).next() {
            self.places[place].fill(&self.stamp, content);
            *word |= tag << (8 * place);
            return None;
        }
        let mut bucket = self;
        // SAFETY: the caller's contract.
        while let Some(next) = unsafe { bucket.next() } {
            bucket = next;
            let word = bucket.word();
            if let Some(place) = Places::vacant(word).next() {
                bucket.places[place].fill(&bucket.stamp, content);
                bucket.word.publish(word | (tag << (8 * place)));
                return None;
            }
        }
        let layout = Layout::new::<Bucket<P>>();
        // SAFETY: the size is not 0.
        let made = unsafe { Sheaves.alloc_zeroed(layout) }.cast::<Bucket<P>>();
        // SAFETY: null, or an empty bucket that no other thread knows.
        let Some(fresh) = (unsafe { made.as_ref() }) else { handle_alloc_error(layout) };
        fresh.places[0].fill(&fresh.stamp, content);
        fresh.word.publish(tag);
        // Release pairs with the Acquire in `next`. [M3]
        bucket.next.store(made, Ordering::Release);
        Some(made)
    }

    /// Calls `each` for every entry of the chain, whose first bucket has this word, with its tag.
    ///
    /// # Safety
    /// The chain's buckets are not freed, and no other thread changes it.
    #[inline]
    pub(in crate::map) unsafe fn for_each(
        &self,
        mut word: u64,
        mut each: impl FnMut(P::Content, u64),
    ) {
        let mut bucket = self;
        loop {
            for place in Places::occupied(word) {
                each(bucket.content(place), word >> (8 * place) & 0xFF);
            }
            // SAFETY: the caller's contract.
            let Some(next) = (unsafe { bucket.next() }) else { return };
            bucket = next;
            word = bucket.word();
        }
    }
}

/// The lock of a chain, with the word that unlocking publishes.
pub(in crate::map) struct Held<'a, P: Place> {
    pub(in crate::map) first: &'a Bucket<P>,
    pub(in crate::map) word: u64,
}

impl<'a, P: Place> Held<'a, P> {
    /// Replaces an entry by another one with the same key.
    #[inline]
    pub(in crate::map) fn replace(&mut self, found: &Found<'a, P>, content: P::Content) {
        found.bucket.places[found.place].replace(content);
    }

    /// Removes an entry. True if it was the last one of the first bucket.
    #[inline]
    pub(in crate::map) fn remove(&mut self, found: &Found<'a, P>) -> bool {
        let others = !(0xFF << (8 * found.place));
        if core::ptr::eq(found.bucket, self.first) {
            self.word &= others;
            return self.word & OCCUPIED == 0;
        }
        let word = &found.bucket.word;
        word.publish(word.load() & others);
        false
    }

    /// Marks the chain as moved, unlocks it, and frees its overflow buckets after a grace period.
    ///
    /// # Safety
    /// The next table has the entries.
    pub(in crate::map) unsafe fn mark(mut self) {
        let first = self.first;
        self.word |= MOVED;
        drop(self);
        // SAFETY: the chain has just been moved, and a chain is marked once.
        unsafe { retire_overflow(first) };
    }
}

impl<P: Place> Drop for Held<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.first.word.release(self.word, P::IS_BRIEF);
    }
}

/// Frees the overflow buckets of a chain after a grace period.
///
/// # Safety
/// The chain has moved, or no thread can find it any more; this is called once for it.
pub(in crate::map) unsafe fn retire_overflow<P: Place>(first: &Bucket<P>) {
    // SAFETY: buckets of the chain are freed here only, each after its link is read.
    let mut bucket = unsafe { first.next() };
    while let Some(one) = bucket {
        // SAFETY: as above.
        bucket = unsafe { one.next() };
        let block = core::ptr::from_ref(one).cast_mut().cast();
        // SAFETY: from `Bucket::add`, with this layout; only readers use it.
        unsafe { sheaves_heap::free_rcu_layout(block, Layout::new::<Bucket<P>>()) };
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/map_bucket.rs"]
mod tests;
