//! Memory for sheaves, and the stacks of empty ones that all caches share.
//!
//! Sheaves are numbered from 1; number 0 stands for "none". A sheaf is in exactly one place: a
//! word of a slot, a depot, the empty stack, the returned set, or a thread that is moving it.
//! Entry 0 of a sheaf holds no object but, as an odd number, the index of the sentinel (bits 1 to
//! 7) and, while the sheaf is stacked or queued, the number of the next one (from bit 8 on); in one
//! for 127 objects it is the sentinel itself. Entries 1 and 2 of smaller ones hold how often the
//! sheaf was used and when that was last looked at; while it is deferred, see `deferred::queue`.
//!
//! The memory is never unmapped, because a sequence or a stale reader may still look at it; whole
//! free pages can be given back by [`trim`], after which their sheaves are in the returned set
//! until they are needed again.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::engine;
use sheaves_percpu::sheaf::{ENTRIES, SHEAF_BYTES, is_full};
use sheaves_sys::clock;
use sheaves_sys::lock::Lock;
use sheaves_sys::map::{self, Exactly};

use crate::stack::{Links, Stack};
use crate::window::{SHEAVES, STEP_BYTES};

/// Where the link begins in entry 0.
const LINK_SHIFT: u32 = 8;
/// Highest sheaf number.
const NUMBER_MAX: usize = (1 << 24) - 1;

/// So many uses are timed together, see [`Sheaf::count_use`].
pub(crate) const USES: usize = 32;

/// A sheaf owned by the caller, as its first address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sheaf(usize);

impl Sheaf {
    /// The sheaf in which a cursor of a real (not constant) sheaf lies.
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
        // SAFETY: the entries are inside the sheaf, mapped, initialised (zero at the least), and
        // the caller owns them.
        unsafe { core::slice::from_raw_parts_mut(start, count) }
    }

    /// How many objects a sheaf holds, by its cursor. A hint where the sheaf is not the caller's:
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

    /// The room above a sheaf's cursor.
    ///
    /// # Safety
    /// As for [`Sheaf::entries`].
    #[inline]
    pub(crate) unsafe fn room<'a>(cursor: usize) -> &'a mut [usize] {
        let used = index_of(cursor) + 1;
        // SAFETY: the same contract.
        unsafe { Sheaf::of_cursor(cursor).entries(used, ENTRIES - used) }
    }

    /// Puts an object onto a sheaf that the caller owns and that is not full: the new cursor.
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
        // Relaxed: the caller owns the sheaf; whoever gets it next does so by an ordered way.
        self.entry_0().store((sentinel as u64) << 1 | 1, Ordering::Relaxed);
        self.cursor(sentinel)
    }

    /// Index of the sentinel. A hint where the sheaf is not the caller's.
    #[inline]
    pub(crate) fn sentinel(self) -> usize {
        // Relaxed: written by the owner; others only take hints.
        (self.entry_0().load(Ordering::Relaxed) >> 1) as usize & (ENTRIES - 1)
    }

    /// Counts a use of a sheaf that the caller owns; every [`USES`] times gives the nanoseconds
    /// since this happened last. The two numbers lie below the sentinel, where there is room.
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

    /// How many objects fit.
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

    /// What entry 0 holds, see the head of this file.
    fn entry_0(self) -> &'static AtomicU64 {
        // SAFETY: the sheaf is mapped for ever, and entry 0 never holds an object: all access is
        // atomic, or by an owner who writes the sentinel there.
        unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(self.0) }
    }
}

/// The entry on which a cursor is.
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

/// What all slots share comes in so many shards: slot `n` uses number `n % SHARDS`.
pub(crate) const SHARDS: usize = 4;

/// Number of the current slot's shard.
pub(crate) fn shard_here() -> usize {
    engine::current_slot() as usize % SHARDS
}

/// Empty sheaves, in shards, so that a sheaf comes back to the processor that has it in its caches.
static EMPTY: [Shard; SHARDS] = [const { Shard(SheafStack::new()) }; SHARDS];

/// A stack on cache lines of its own.
#[repr(align(128))]
struct Shard(SheafStack);

/// Guards growth and the returned set.
struct Pool {
    /// Numbers below this have been handed out once; 0 is never used.
    used: usize,
    /// Sheaves in the returned set.
    returned: usize,
}

static POOL: Lock<Pool> = Lock::new(Pool { used: 1, returned: 0 });

/// The returned set: bit `number % 64` of word `number / 64`. 2 MiB of untouched memory.
static RETURNED: [AtomicU64; (NUMBER_MAX + 1) / 64] =
    [const { AtomicU64::new(0) }; (NUMBER_MAX + 1) / 64];

/// An empty sheaf, its sentinel not yet set; `None` when there is no memory.
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

/// A sheaf that was never handed out, behind what other mappings occupy.
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
            // The number is the first of a step, or its sheaf would be mapped. The skipped ones
            // are in use for ever.
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

/// Takes back a sheaf that holds no object.
pub(crate) fn put_empty(sheaf: Sheaf) {
    EMPTY[shard_here()].0.push(sheaf);
}

/// Gives back every page whose sheaves are all empty. Returns the bytes.
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

/// True when every sheaf of a page is in the returned set, or was never handed out.
fn is_free_page(pool: &Pool, first: usize, count: usize) -> bool {
    let unused = |number: usize| number == 0 || number >= pool.used;
    (first..first + count).all(|number| unused(number) || is_returned(number))
}

/// Gives the returned sheaves of a page that has others in use back to the empty stack.
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

/// The same in a child whose fork has not prepared.
pub(crate) fn recover() {
    POOL.acquire_to_recover(|pool| {
        // Relaxed: under the pool lock.
        let words = RETURNED[..pool.used.div_ceil(64)].iter();
        let bits = words.map(|word| word.load(Ordering::Relaxed).count_ones() as usize);
        pool.returned = bits.sum();
    });
}

/// Gives it back.
///
/// # Safety
/// Taken by [`lock_for_fork`] in the thread that forked.
pub(crate) unsafe fn unlock_after_fork() {
    // SAFETY: the same contract.
    unsafe { POOL.release() };
}
