//! Places that hold a key and its value, and how readers copy them while writers reuse the place.
//!
//! A bucket counts how often its places were filled. A writer counts before it stores the key and
//! the value; a reader reads the count before the tags, and again after what it has copied:
//!
//! ```text
//!   writer (under the lock)           reader
//!   version + 1     [V1] release      version          [V1] acquire
//!   key, value      [V2] release      word of tags     [M1] acquire
//!   word of tags    [M1] release      key, value       [V2] acquire
//!                                     version, again
//! ```
//!
//! A reader that sees a count sees the place vacant, or filled completely: the removal came before.
//! One that has read a key or a value of a later filling finds another count when it reads that
//! again, and looks at the bucket once more. So the two belong to each other. A value that is
//! replaced is one store, and needs no count. A reader repeats only when a writer has filled a
//! place meanwhile, and waits for none.

use core::hash::BuildHasher;
use core::sync::atomic::{AtomicU64, Ordering};

use super::super::tables::bucket::{Bucket, Place};
use super::super::tables::copies::{COPIES, Part};
use super::super::tables::lock::MOVED;
use super::super::tables::spread::spread;
use super::super::tables::table::{Rehash, Table};
use super::super::tables::tags::Places;

/// A key and its value, as words.
pub(in crate::map) type Words = (u64, u64);

/// A place of [`super::RcuWordMap`]'s tables.
pub(in crate::map) struct Pair {
    key: AtomicU64,
    value: AtomicU64,
}

/// How often places of a bucket were filled.
pub(in crate::map) struct Version(AtomicU64);

impl Version {
    #[inline(always)]
    fn begin(&self) -> u64 {
        // Acquire pairs with the Release in `fill`: the removal before. [V1]
        self.0.load(Ordering::Acquire)
    }

    /// True if what was read since `begin` is of one filling.
    #[inline(always)]
    fn is_still(&self, version: u64) -> bool {
        // Relaxed: after the Acquire in `load`, which has seen the count of what it has read. [V2]
        self.0.load(Ordering::Relaxed) == version
    }
}

impl Place for Pair {
    type Content = Words;
    type Stamp = Version;
    type Unlinked = ();
    const ENTRY_BYTES: usize = 0;
    const IS_BRIEF: bool = true;
    const ENTRIES_MAX: usize = 5;
    const SHRINKS: bool = false;

    #[inline(always)]
    fn load(&self) -> Words {
        // Acquire, both, pair with the Release in `fill` and `replace`: the count before, and what
        // the thread did that has stored the value. [V2]
        (self.key.load(Ordering::Acquire), self.value.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn fill(&self, version: &Version, (key, value): Words) {
        // Relaxed: changes under the lock.
        let next = version.0.load(Ordering::Relaxed).wrapping_add(1);
        // Release pairs with the Acquire in `begin`. [V1]
        version.0.store(next, Ordering::Release);
        // Release, both, pair with the Acquire in `load`. [V2]
        self.key.store(key, Ordering::Release);
        self.value.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn replace(&self, (_, value): Words) {
        // Release pairs with the Acquire in `load`. [V2]
        self.value.store(value, Ordering::Release);
    }

    fn unlinked() {}

    unsafe fn unlink(_: Words, (): &mut ()) {}
}

impl<S: BuildHasher> Rehash<S> for Pair {
    #[inline(always)]
    fn with_hash(content: Words, _: u64, _: &Table<Pair>) -> Words {
        content
    }

    #[inline]
    unsafe fn hash((key, _): Words, hasher: &S, _: &Table<Pair>, _: &Table<Pair>) -> u64 {
        spread(hasher.hash_one(key))
    }
}

/// The entries of the chain have moved to the next table.
pub(super) struct Moved;

impl Bucket<Pair> {
    /// The value of a key in the chain that begins with this bucket.
    ///
    /// # Safety
    /// The chain's buckets are not freed meanwhile.
    #[inline(always)]
    pub(super) unsafe fn value_of(&self, tag: u64, key: u64) -> Result<Option<u64>, Moved> {
        let mut bucket = self;
        loop {
            let version = bucket.stamp.begin();
            let word = bucket.word();
            if word & MOVED != 0 {
                return Err(Moved);
            }
            let mut places = Places::matching(word, tag);
            let found = places.find_map(|place| {
                let (other, value) = bucket.content(place);
                (other == key).then_some(value)
            });
            if found.is_some() {
                if bucket.stamp.is_still(version) {
                    return Ok(found);
                }
                continue;
            }
            // Not here: a key that is in the chain all the time stays in its place.
            // SAFETY: the caller's contract.
            let Some(next) = (unsafe { bucket.next() }) else { return Ok(None) };
            bucket = next;
        }
    }
}

/// Key and value.
impl Part<Pair> for Words {
    const NONE: Words = (0, 0);

    #[inline(always)]
    fn copy(bucket: &Bucket<Pair>, copies: &mut [Words; COPIES]) -> usize {
        loop {
            let version = bucket.stamp.begin();
            let count = bucket.copy_each(copies, Pair::load);
            if bucket.stamp.is_still(version) {
                return count;
            }
        }
    }
}

/// The value. It may be that of a key that comes while another one goes.
impl Part<Pair> for u64 {
    const NONE: u64 = 0;

    #[inline(always)]
    fn copy(bucket: &Bucket<Pair>, copies: &mut [u64; COPIES]) -> usize {
        // Acquire pairs with the Release in `fill` and `replace`, as in `load`. [V2]
        bucket.copy_each(copies, |pair| pair.value.load(Ordering::Acquire))
    }
}
