//! Memory for sheaves, and the stacks of empty ones that all caches share.
//!
//! Sheaves are numbered from 1; number 0 stands for "none". A sheaf is in exactly one place: a word
//! of a slot, a depot, the empty stack, the returned set, or a thread that is moving it.
//!
//! Entry 0 of a sheaf never holds an object. It is an odd number: bits 1 to 7 are the index of the
//! sentinel, and the bits from 8 on are the number of the next sheaf while this one is stacked or
//! queued. In a sheaf for 127 objects entry 0 is the sentinel itself. Entries 1 and 2 of smaller
//! sheaves hold the number of uses and the time when it was last 0; while the sheaf is deferred,
//! see `deferred::queue`.
//!
//! The memory is never unmapped, because an rseq critical section or a stale reader may still read
//! it. [`trim`] can discard pages whose sheaves are all empty; these sheaves are in the returned
//! set until they are needed again.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::engine;
use sheaves_percpu::sheaf::{ENTRIES, SHEAF_BYTES, is_full};
use sheaves_sys::clock;
use sheaves_sys::lock::Lock;
use sheaves_sys::map::{self, Exactly};

use crate::stack::{Links, Stack};
use crate::window::{SHEAVES, STEP_BYTES};

/// The first bit of the link in entry 0.
const LINK_SHIFT: u32 = 8;
/// Highest sheaf number.
const NUMBER_MAX: usize = (1 << 24) - 1;

/// This many uses are timed together, see [`Sheaf::count_use`].
pub(crate) const USES: usize = 32;

/// A sheaf owned by the caller, as its first address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sheaf(usize);

impl Sheaf {
    /// The sheaf of a cursor that is not a constant.
    #[inline]
    pub(crate) fn of_cursor(cursor: usize) -> Sheaf {
        Sheaf(sheaves_percpu::sheaf::base(cursor))
    }

    fn from_number(number: u32) -> Sheaf {
        Sheaf(SHEAVES.base() + number as usize * SHEAF_BYTES)
    }

    /// The sheaf of a number, `None` for 0.
    #[inline]
    pub(crate) fn existing(number: u32) -> Option<Sheaf> {
        (number != 0).then(|| Sheaf::from_number(number))
    }

    /// The sheaf's number, from 1 on.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        ((self.0 - SHEAVES.base()) / SHEAF_BYTES) as u32
    }

    /// The cursor on entry `index`.
    #[inline]
    pub(crate) fn cursor(self, index: usize) -> usize {
        self.0 + index * 8
    }

    /// Entries `first..first + count`, for an owner of the sheaf.
    ///
    /// # Safety
    /// The caller owns the sheaf and makes no second reference to these entries.
    #[inline]
    pub(crate) unsafe fn entries<'a>(self, first: usize, count: usize) -> &'a mut [usize] {
        debug_assert!(first + count <= ENTRIES);
        let start = core::ptr::with_exposed_provenance_mut(self.cursor(first));
        // SAFETY: the entries are inside the sheaf, mapped, initialised (at least to zero), and the
        // caller owns them.
        unsafe { core::slice::from_raw_parts_mut(start, count) }
    }

    /// Number of objects of a sheaf, by its cursor. A hint where the caller does not own the sheaf:
    /// cursor and sentinel may be of different times.
    #[inline]
    pub(crate) fn fill(cursor: usize) -> usize {
        index_of(cursor).saturating_sub(Sheaf::of_cursor(cursor).sentinel())
    }

    /// The objects of a sheaf, by its cursor.
    ///
    /// # Safety
    /// As for [`Sheaf::entries`].
    #[inline]
    pub(crate) unsafe fn objects<'a>(cursor: usize) -> &'a mut [usize] {
        let sheaf = Sheaf::of_cursor(cursor);
        debug_assert!(sheaf.sentinel() <= index_of(cursor));
        // SAFETY: the same contract.
        unsafe { sheaf.entries(sheaf.sentinel() + 1, Sheaf::fill(cursor)) }
    }

    /// The unused entries above a sheaf's cursor.
    ///
    /// # Safety
    /// As for [`Sheaf::entries`].
    #[inline]
    pub(crate) unsafe fn room<'a>(cursor: usize) -> &'a mut [usize] {
        let used = index_of(cursor) + 1;
        // SAFETY: the same contract.
        unsafe { Sheaf::of_cursor(cursor).entries(used, ENTRIES - used) }
    }

    /// Pushes an object onto a sheaf that the caller owns and that is not full; returns the new
    /// cursor.
    #[inline]
    pub(crate) fn add(cursor: usize, object: usize) -> usize {
        debug_assert!(!is_full(cursor));
        let entry = core::ptr::with_exposed_provenance_mut::<usize>(cursor + 8);
        // SAFETY: the caller owns the sheaf, and the entry above the cursor is in it.
        unsafe { entry.write(object) };
        cursor + 8
    }

    /// Makes this an empty sheaf for `objects` objects and returns its cursor, on the sentinel.
    pub(crate) fn format(self, objects: usize) -> usize {
        let sentinel = ENTRIES - 1 - objects;
        // SAFETY: the caller owns the sheaf (a precondition of all methods that change it).
        let entry = unsafe { self.entries(sentinel, 1) };
        entry[0] = 1;
        if sentinel > 2 {
            // SAFETY: as above.
            unsafe { self.entries(1, 2) }.fill(0);
        }
        // Relaxed: the caller owns the sheaf; its next owner gets it by an ordered path.
        self.entry_0().store((sentinel as u64) << 1 | 1, Ordering::Relaxed);
        self.cursor(sentinel)
    }

    /// Index of the sentinel. A hint where the caller does not own the sheaf.
    #[inline]
    pub(crate) fn sentinel(self) -> usize {
        // Relaxed: written by the owner; other threads only take hints.
        (self.entry_0().load(Ordering::Relaxed) >> 1) as usize & (ENTRIES - 1)
    }

    /// Counts a use of a sheaf that the caller owns; every [`USES`] uses it returns the nanoseconds
    /// since the last time. The two numbers are below the sentinel, where there is room.
    pub(crate) fn count_use(self) -> Option<u64> {
        if self.sentinel() <= 2 {
            return None;
        }
        // SAFETY: the caller owns the sheaf, and this is the only reference to these entries.
        let notes = unsafe { self.entries(1, 2) };
        notes[0] += 1;
        if notes[0] < USES {
            return None;
        }
        let now = clock::fine_ns() as usize;
        let took = now.wrapping_sub(notes[1]);
        (notes[0], notes[1]) = (0, now);
        Some(took as u64)
    }

    /// The most objects that fit.
    pub(crate) fn capacity(self) -> usize {
        ENTRIES - 1 - self.sentinel()
    }

    /// The link of a sheaf that the caller owns, 0 for none.
    pub(crate) fn link(self) -> u32 {
        InSheaves.link(self.number())
    }

    /// Stores the link of a sheaf that the caller owns.
    pub(crate) fn set_link(self, next: u32) {
        InSheaves.set_link(self.number(), next);
    }

    /// Entry 0, see the head of this file.
    fn entry_0(self) -> &'static AtomicU64 {
        // SAFETY: the sheaf is never unmapped, and entry 0 never holds an object: all access is
        // atomic, or by an owner that writes the sentinel there.
        unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(self.0) }
    }
}

/// Index of the entry that a cursor is on.
#[inline]
fn index_of(cursor: usize) -> usize {
    cursor % SHEAF_BYTES / 8
}

/// Links of stacked sheaves, in their entry 0.
struct InSheaves;

impl Links for InSheaves {
    fn link(&self, number: u32) -> u32 {
        // Relaxed: ordered by the Acquire load of the head; a stale value is discarded.
        (Sheaf::from_number(number).entry_0().load(Ordering::Relaxed) >> LINK_SHIFT) as u32
    }

    fn set_link(&self, number: u32, next: u32) {
        let entry = Sheaf::from_number(number).entry_0();
        // Relaxed, both: published by the Release exchange of the head.
        let kept = entry.load(Ordering::Relaxed) & ((1 << LINK_SHIFT) - 1);
        entry.store(u64::from(next) << LINK_SHIFT | kept | 1, Ordering::Relaxed);
    }
}

/// A depot's stack of sheaves.
#[derive(Debug)]
pub(crate) struct SheafStack(Stack);

impl SheafStack {
    pub(crate) const fn new() -> SheafStack {
        SheafStack(Stack::new())
    }

    pub(crate) fn push(&self, sheaf: Sheaf) {
        self.0.push(&InSheaves, sheaf.number());
    }

    pub(crate) fn pop(&self) -> Option<Sheaf> {
        self.0.pop(&InSheaves).map(Sheaf::from_number)
    }
}

/// Structures that all slots share have this many shards: slot `n` uses shard `n % SHARDS`.
pub(crate) const SHARDS: usize = 4;

/// Number of the current slot's shard.
pub(crate) fn shard_here() -> usize {
    engine::current_slot() as usize % SHARDS
}

/// Empty sheaves, in shards, so that a sheaf tends to return to the CPU that has it in its caches.
static EMPTY: [Shard; SHARDS] = [const { Shard(SheafStack::new()) }; SHARDS];

/// A shard of the empty sheaves, on cache lines of its own.
#[repr(align(128))]
struct Shard(SheafStack);

/// Guards growth and the returned set.
struct Pool {
    /// Numbers below this have been used; 0 is never used.
    used: usize,
    /// Sheaves in the returned set.
    returned: usize,
}

static POOL: Lock<Pool> = Lock::new(Pool { used: 1, returned: 0 });

/// The returned set: bit `number % 64` of word `number / 64`. 2 MiB of untouched memory.
static RETURNED: [AtomicU64; (NUMBER_MAX + 1) / 64] =
    [const { AtomicU64::new(0) }; (NUMBER_MAX + 1) / 64];

/// An empty sheaf, its sentinel not yet set; `None` when memory is out.
pub(crate) fn take_empty() -> Option<Sheaf> {
    EMPTY[shard_here()].0.pop().or_else(take_empty_slow)
}

#[cold]
fn take_empty_slow() -> Option<Sheaf> {
    if let Some(sheaf) = pop_any() {
        return Some(sheaf);
    }
    let mut pool = POOL.lock();
    if pool.returned > 0 {
        return Some(take_returned(&mut pool));
    }
    take_new(&mut pool)
}

/// A sheaf with a new number, after any range that other mappings occupy.
fn take_new(pool: &mut Pool) -> Option<Sheaf> {
    // Doubled each time, as for chunks.
    let mut skipped = STEP_BYTES / SHEAF_BYTES;
    while pool.used <= NUMBER_MAX {
        let number = pool.used;
        match SHEAVES.grow_to((number + 1) * SHEAF_BYTES) {
            Exactly::Mapped => {
                pool.used = number + 1;
                return Some(Sheaf::from_number(number as u32));
            }
            // The number is the first of a step, or its sheaf would be mapped. The skipped sheaves
            // count as used for ever.
            Exactly::Occupied => pool.used = number + skipped,
            Exactly::Refused => return None,
        }
        SHEAVES.skip_to(pool.used * SHEAF_BYTES);
        skipped *= 2;
    }
    None
}

/// An empty sheaf of any shard.
fn pop_any() -> Option<Sheaf> {
    EMPTY.iter().find_map(|shard| shard.0.pop())
}

fn take_returned(pool: &mut Pool) -> Sheaf {
    for (index, word) in RETURNED.iter().enumerate() {
        // Relaxed, both: under the pool lock.
        let bits = word.load(Ordering::Relaxed);
        if bits != 0 {
            word.store(bits & (bits - 1), Ordering::Relaxed);
            pool.returned -= 1;
            return Sheaf::from_number((index * 64) as u32 + bits.trailing_zeros());
        }
    }
    sheaves_sys::report::die(format_args!("the set of returned sheaves has lost one"))
}

/// Returns a sheaf that holds no object.
pub(crate) fn put_empty(sheaf: Sheaf) {
    EMPTY[shard_here()].0.push(sheaf);
}

/// Discards every page whose sheaves are all empty. Returns the number of bytes.
pub(crate) fn trim() -> usize {
    let mut pool = POOL.lock();
    let page_sheaves = (map::page_bytes() / SHEAF_BYTES).max(1);
    let mut bytes = 0;
    while let Some(sheaf) = pop_any() {
        let number = sheaf.number() as usize;
        // Relaxed: under the pool lock.
        RETURNED[number / 64].fetch_or(1 << (number % 64), Ordering::Relaxed);
        pool.returned += 1;
        // A page is complete with the last of its sheaves, once.
        let first = number / page_sheaves * page_sheaves;
        if is_free_page(&pool, first, page_sheaves) {
            let address = Sheaf::from_number(first as u32).0;
            // SAFETY: the page holds sheaves only, and all of them are owned by the returned set.
            // It stays mapped, so stale readers read zeros.
            unsafe { map::discard(address, page_sheaves * SHEAF_BYTES) };
            bytes += page_sheaves * SHEAF_BYTES;
        }
    }
    for first in (0..pool.used).step_by(page_sheaves) {
        if !is_free_page(&pool, first, page_sheaves) {
            put_back(&mut pool, first, page_sheaves);
        }
    }
    bytes
}

fn is_returned(number: usize) -> bool {
    // Relaxed: under the pool lock.
    RETURNED[number / 64].load(Ordering::Relaxed) & (1 << (number % 64)) != 0
}

/// True when every sheaf of a page is in the returned set, or was never used.
fn is_free_page(pool: &Pool, first: usize, count: usize) -> bool {
    let unused = |number: usize| number == 0 || number >= pool.used;
    (first..first + count).all(|number| unused(number) || is_returned(number))
}

/// Moves the returned sheaves of a page that has others in use back to the empty stack.
fn put_back(pool: &mut Pool, first: usize, count: usize) {
    for number in (first..first + count).filter(|number| is_returned(*number)) {
        // Relaxed: under the pool lock.
        RETURNED[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
        pool.returned -= 1;
        put_empty(Sheaf::from_number(number as u32));
    }
}

/// Takes the pool's lock for a fork.
pub(crate) fn lock_for_fork() {
    POOL.acquire();
}

/// Takes the lock in a child whose fork was not prepared.
pub(crate) fn recover() {
    POOL.acquire_to_recover(|pool| {
        // Relaxed: under the pool lock.
        let words = RETURNED[..pool.used.div_ceil(64)].iter();
        let bits = words.map(|word| word.load(Ordering::Relaxed).count_ones() as usize);
        pool.returned = bits.sum();
    });
}

/// Releases the lock after a fork.
///
/// # Safety
/// Taken by [`lock_for_fork`] in the thread that forked.
pub(crate) unsafe fn unlock_after_fork() {
    // SAFETY: the same contract.
    unsafe { POOL.release() };
}
