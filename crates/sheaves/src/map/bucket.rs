//! Buckets: a cache line of six places with a byte of each hash, and a lock that sleeps.
//!
//! A reader loads the word of tags, then the places whose tag matches its hash. It writes nothing
//! and never waits. A writer holds the lock of the first bucket of the chain.
//!
//! | bits of `word` | meaning | changed by |
//! |---|---|---|
//! | 0..48 | a tag for each place: 0 if vacant, else with its highest bit set | the lock's holder |
//! | 48 [`LOCKED`] | a writer holds the lock of the chain | the thread that takes it; the holder |
//! | 49 [`WAITERS`] | a thread sleeps for the lock | that thread, first; the holder, to 0 |
//! | 50 [`MOVED`] | the entries are in the next table, too; no later change | the lock's holder |
//! | 51..64 | generation of the process (its lowest bits) if locked, else 0 | as `LOCKED` |
//!
//! The holder publishes its changes with the store that unlocks. The word of a later bucket of the
//! chain has tags only. A vacant place may still hold the address of its last entry.
//!
//! In the child of a fork a lock may be *orphaned*: its holder is not in the process. A thread that
//! waits for it takes it over ([`bits`]). Each change of a chain is one store, of a place, a word
//! or a link, after what it leads to. The child has stores of its parent's threads in their order,
//! see `sheaves_sys::fork`. So the chain is that before or after the change. At most an entry or
//! buckets leak, which were on their way into the chain or out of it. What a move of the chain
//! leaves behind is in `resize`. A lock that is 8,192 nested forks old looks as if it were held: it
//! is never taken over then.

use alloc::alloc::handle_alloc_error;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use sheaves_sys::futex;
use sheaves_sys::lock::bits;

use super::tags::{OCCUPIED, Places, TAGS};
use crate::Sheaves;

/// Entries of a bucket.
pub(super) const PLACES: usize = 6;
pub(super) const BUCKET_BYTES: usize = 64;

const LOCKED: u64 = 1 << 48;
const WAITERS: u64 = 1 << 49;
pub(super) const MOVED: u64 = 1 << 50;
const GENERATION_SHIFT: u32 = 51;

/// Bits of its hash beside the address of an entry.
pub(super) const PLACE_BITS: u32 = 16;
const BITS_SHIFT: u32 = u64::BITS - PLACE_BITS;
const ADDRESS: usize = (1 << BITS_SHIFT) - 1;

/// Checks of a held lock before a writer sleeps; the lock is held for tens of nanoseconds.
const SPINS: u32 = 100;
/// The longest that a writer sleeps before it looks at the lock again.
const SLEEP_NS: u64 = 100_000_000;

/// See above. All zeros is an empty bucket.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Bucket<T> {
    word: AtomicU64,
    /// The next bucket of the chain, once there are more entries than places.
    next: AtomicPtr<Bucket<T>>,
    /// The address of each entry, with 16 bits of its hash above: see [`with_bits`].
    places: [AtomicPtr<T>; PLACES],
}

const _: () = assert!(size_of::<Bucket<u8>>() == BUCKET_BYTES);

/// True if the holder of a lock is not in this process.
#[cold]
fn is_orphaned(word: u64) -> bool {
    bits::is_orphaned((word >> GENERATION_SHIFT) as usize, (u64::MAX >> GENERATION_SHIFT) as usize)
}

/// An entry and its place.
#[derive(Debug)]
pub(super) struct Found<'a, T> {
    bucket: &'a Bucket<T>,
    place: usize,
    pub(super) entry: *mut T,
}

impl<T> Bucket<T> {
    /// The word: tags and flags.
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        // Acquire pairs with the Release in `Held::drop`, `add`, `publish` and `remove`: the
        // entries. [M1]
        self.word.load(Ordering::Acquire)
    }

    /// The entry at a place.
    #[inline(always)]
    pub(super) fn entry(&self, place: usize) -> *mut T {
        self.place(place).map_addr(|address| address & ADDRESS)
    }

    /// The entry at a place, with the bits of its hash.
    #[inline(always)]
    fn place(&self, place: usize) -> *mut T {
        // Acquire pairs with the Release in `put`: what the entry holds. [M2]
        self.places[place].load(Ordering::Acquire)
    }

    /// The next bucket of the chain.
    ///
    /// # Safety
    /// Buckets of the chain are not freed while the reference is used.
    #[inline(always)]
    pub(super) unsafe fn next<'a>(&self) -> Option<&'a Bucket<T>> {
        // Acquire pairs with the Release in `add`: the bucket. [M3]
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: null, or a bucket that the caller keeps alive.
        unsafe { next.as_ref() }
    }

    /// Searches the chain that begins with this bucket, whose word is `word`, for an entry.
    ///
    /// # Safety
    /// Neither the chain's buckets nor its entries are freed during `'a`.
    #[inline(always)]
    pub(super) unsafe fn find<'a>(
        &'a self,
        word: u64,
        tag: u64,
        mut is_it: impl FnMut(*mut T) -> bool,
    ) -> Option<Found<'a, T>> {
        let (mut bucket, mut word) = (self, word);
        loop {
            for place in Places::matching(word, tag) {
                let entry = bucket.entry(place);
                if is_it(entry) {
                    return Some(Found { bucket, place, entry });
                }
            }
            // SAFETY: the caller's contract.
            bucket = unsafe { bucket.next() }?;
            word = bucket.word();
        }
    }

    /// Takes the lock of the chain. `None` if the entries have moved.
    #[inline]
    pub(super) fn lock(&self) -> Option<Held<'_, T>> {
        let mut spins = 0;
        self.acquire(|word| {
            if spins < SPINS {
                spins += 1;
                core::hint::spin_loop();
            } else {
                self.sleep(word);
            }
            true
        })
    }

    /// Takes the lock of the chain, without waiting. `None` if another thread keeps it, or if the
    /// entries have moved.
    pub(super) fn try_lock(&self) -> Option<Held<'_, T>> {
        self.acquire(|_| false)
    }

    /// Calls `wait` with the word while another thread keeps the lock, until that returns false.
    #[inline(always)]
    fn acquire(&self, mut wait: impl FnMut(u64) -> bool) -> Option<Held<'_, T>> {
        loop {
            // Relaxed: the exchange orders, and compares with this value.
            let word = self.word.load(Ordering::Relaxed);
            if word & MOVED != 0 {
                return None;
            }
            let is_taken_over = word & LOCKED != 0;
            if is_taken_over && !is_orphaned(word) {
                if !wait(word) {
                    return None;
                }
                continue;
            }
            // A thread that only waits counts no lock: if it forks, or is found to have forked,
            // that lock would be taken for one that it holds.
            let mine = LOCKED | (bits::begin() as u64) << GENERATION_SHIFT;
            if self.exchange(word, word & (TAGS | WAITERS) | mine) {
                return Some(Held { first: self, word: word & TAGS, is_taken_over });
            }
            bits::end();
        }
    }

    #[inline(always)]
    fn exchange(&self, word: u64, new: u64) -> bool {
        // Acquire pairs with the Release in `Held::drop`. Relaxed on failure: nothing is read. [M1]
        self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Sleeps until a lock that is held, as `word` says, is released.
    #[cold]
    fn sleep(&self, word: u64) {
        if cfg!(miri) {
            // A futex of half a word is a race for it.
            return core::hint::spin_loop();
        }
        // Relaxed, both: the flag orders nothing, and the futex compares.
        let (waiting, relaxed) = (word | WAITERS, Ordering::Relaxed);
        if word == waiting || self.word.compare_exchange(word, waiting, relaxed, relaxed).is_ok() {
            // Not for ever: whether the lock is orphaned may be known later only.
            futex::wait_for(self.half(), (waiting >> 32) as u32, SLEEP_NS);
        }
    }

    /// Adds what [`with_bits`] makes of an entry; true if it is in a new bucket, because no place
    /// of the chain was vacant.
    ///
    /// Aborts the program when memory is out, as `Box` does.
    /// The caller publishes `word`, which is the first bucket's.
    ///
    /// # Safety
    /// The chain's buckets are not freed, and no other thread changes it.
    #[inline]
    pub(super) unsafe fn add(&self, word: &mut u64, tag: u64, entry: *mut T) -> bool {
        if let Some(place) = Places::vacant(*word).next() {
            put(&self.places[place], entry);
            *word |= tag << (8 * place);
            return false;
        }
        let mut bucket = self;
        // SAFETY: the caller's contract.
        while let Some(next) = unsafe { bucket.next() } {
            bucket = next;
            // Relaxed: changes under the lock.
            let word = bucket.word.load(Ordering::Relaxed);
            if let Some(place) = Places::vacant(word).next() {
                put(&bucket.places[place], entry);
                // Release pairs with the Acquire in `word`. [M1]
                bucket.word.store(word | (tag << (8 * place)), Ordering::Release);
                return false;
            }
        }
        let layout = Layout::new::<Bucket<T>>();
        // SAFETY: the size is not 0.
        let made = unsafe { Sheaves.alloc_zeroed(layout) }.cast::<Bucket<T>>();
        // SAFETY: null, or an empty bucket that no other thread knows.
        let Some(fresh) = (unsafe { made.as_ref() }) else { handle_alloc_error(layout) };
        put(&fresh.places[0], entry);
        // Relaxed: the link publishes it.
        fresh.word.store(tag, Ordering::Relaxed);
        // Release pairs with the Acquire in `next`. [M3]
        bucket.next.store(made, Ordering::Release);
        true
    }

    /// Calls `each` for every entry of the chain, whose first bucket has this word, with its tag
    /// and the bits above its address.
    ///
    /// # Safety
    /// The chain's buckets are not freed, and no other thread changes it.
    #[inline]
    pub(super) unsafe fn for_each(&self, mut word: u64, mut each: impl FnMut(*mut T, u64, u64)) {
        let mut bucket = self;
        loop {
            for place in Places::occupied(word) {
                let held = bucket.place(place);
                let entry = held.map_addr(|address| address & ADDRESS);
                each(entry, word >> (8 * place) & 0xFF, held.addr() as u64 >> BITS_SHIFT);
            }
            // SAFETY: the caller's contract.
            let Some(next) = (unsafe { bucket.next() }) else { return };
            bucket = next;
            word = bucket.word();
        }
    }

    /// Publishes the entries of a chain that no other thread reaches yet.
    pub(super) fn publish(&self, word: u64) {
        // Release pairs with the Acquire in `word`. [M1]
        self.word.store(word, Ordering::Release);
    }

    /// The half of the word with the flags, for the futex.
    fn half(&self) -> &AtomicU32 {
        let half = self.word.as_ptr().cast::<AtomicU32>();
        // SAFETY: the address is that of the word, or four bytes above.
        let half = unsafe { half.add(usize::from(cfg!(target_endian = "little"))) };
        // SAFETY: inside the word, which is borrowed; only the kernel reads through it.
        unsafe { &*half }
    }
}

/// The lock of a chain, with the word that unlocking publishes.
#[derive(Debug)]
pub(super) struct Held<'a, T> {
    pub(super) first: &'a Bucket<T>,
    pub(super) word: u64,
    /// The lock was orphaned.
    pub(super) is_taken_over: bool,
}

impl<'a, T> Held<'a, T> {
    /// Replaces an entry by another one with the same key.
    #[inline]
    pub(super) fn replace(&mut self, found: &Found<'a, T>, entry: *mut T) {
        put(&found.bucket.places[found.place], entry);
    }

    /// Removes an entry. True if it was the last one of the first bucket.
    #[inline]
    pub(super) fn remove(&mut self, found: &Found<'a, T>) -> bool {
        let others = !(0xFF << (8 * found.place));
        if core::ptr::eq(found.bucket, self.first) {
            self.word &= others;
            return self.word & OCCUPIED == 0;
        }
        let word = &found.bucket.word;
        // Relaxed: changes under the lock. Release pairs with the Acquire in `word`. [M1]
        word.store(word.load(Ordering::Relaxed) & others, Ordering::Release);
        false
    }

    /// [`Bucket::add`] to the chain that is locked.
    ///
    /// # Safety
    /// As there; the lock is held.
    #[inline]
    pub(super) unsafe fn add(&mut self, tag: u64, entry: *mut T) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.first.add(&mut self.word, tag, entry) }
    }

    /// Marks the chain as moved, unlocks it, and frees its overflow buckets after a grace period.
    ///
    /// # Safety
    /// The next table has the entries.
    pub(super) unsafe fn mark(mut self) {
        let first = self.first;
        self.word |= MOVED;
        drop(self);
        // SAFETY: the chain has just been moved, and a chain is marked once.
        unsafe { retire_overflow(first) };
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release pairs with the Acquire in `word` and `acquire`. [M1]
        let before = self.first.word.swap(self.word, Ordering::Release);
        if before & WAITERS != 0 {
            futex::wake_all(self.first.half());
        }
        bits::end();
    }
}

/// What a place holds: an address in the lower 48 bits, which all addresses of user space have
/// unless a program asks for more, and the low 16 of `bits` above.
#[inline(always)]
pub(super) fn with_bits<T>(entry: *mut T, bits: u64) -> *mut T {
    debug_assert!(entry.addr() & !ADDRESS == 0);
    entry.map_addr(|address| address | (bits << BITS_SHIFT) as usize)
}

#[inline(always)]
fn put<T>(place: &AtomicPtr<T>, entry: *mut T) {
    // Release pairs with the Acquire in `place`: what the entry holds. [M2]
    place.store(entry, Ordering::Release);
}

/// Frees the overflow buckets of a chain after a grace period.
///
/// # Safety
/// The chain has moved, or no thread can find it any more; this is called once for it.
pub(super) unsafe fn retire_overflow<T>(first: &Bucket<T>) {
    // SAFETY: buckets of the chain are freed here only, each after its link is read.
    let mut bucket = unsafe { first.next() };
    while let Some(one) = bucket {
        // SAFETY: as above.
        bucket = unsafe { one.next() };
        let block = core::ptr::from_ref(one).cast_mut().cast();
        // SAFETY: from `Held::add`, with this layout; only readers use it.
        unsafe { sheaves_heap::free_rcu_layout(block, Layout::new::<Bucket<T>>()) };
    }
}
