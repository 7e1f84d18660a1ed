//! Memory for sheaves, and the stacks of empty ones that all caches share.
//!
//! Sheaves are numbered from 1; number 0 stands for "none", and the link of a sheaf that is stacked
//! or queued is a number. A sheaf is in exactly one place: a word of a slot, a depot, the empty
//! stack, the returned set, or a thread that is moving it.
//!
//! The memory is never unmapped, because an rseq critical section or a stale reader may still read
//! it. [`trim`] can discard pages whose sheaves are all empty; these sheaves are in the returned
//! set until they are needed again.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::internal::{Cursor, Sheaf, current_slot};
use sheaves_sys::lock::{self, Lock};
use sheaves_sys::map::{self, Exactly};

use crate::protocol::stack::{Links, Stack};
use crate::space::window::{RETURNED, SHEAVES, SHEAVES_MAX, STEP_BYTES};

/// Highest sheaf number.
const NUMBER_MAX: usize = SHEAVES_MAX - 1;

fn numbered(number: u32) -> Sheaf {
    // SAFETY: numbers are of mapped sheaves, in a part of the window that is for sheaves only and
    // is never unmapped.
    unsafe { Sheaf::at(SHEAVES.base() + number as usize * Sheaf::BYTES) }
}

/// The sheaf with a number that a link had; `None` for 0.
pub(crate) fn of_number(number: u32) -> Option<Sheaf> {
    (number != 0).then(|| numbered(number))
}

/// A sheaf's number, from 1 on.
#[inline]
pub(crate) fn number_of(sheaf: Sheaf) -> u32 {
    ((sheaf.address() - SHEAVES.base()) / Sheaf::BYTES) as u32
}

/// Makes an owned sheaf an empty one for `objects` objects; returns its cursor, on the sentinel.
pub(crate) fn format(sheaf: Sheaf, objects: usize) -> Cursor {
    // SAFETY: the caller owns the sheaf.
    unsafe { sheaf.format(objects) }
}

/// Gives an owned sheaf room for `objects`, which are no fewer than it holds; returns its cursor.
#[cold]
pub(crate) fn resize(cursor: Cursor, objects: usize) -> Cursor {
    let sheaf = cursor.sheaf();
    let (first, count) = (sheaf.sentinel() + 1, cursor.fill());
    debug_assert!(count <= objects);
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let entries = unsafe { sheaf.entries(0..Sheaf::ENTRIES) };
    entries.copy_within(first..first + count, Sheaf::ENTRIES - objects);
    format(sheaf, objects).up(count)
}

/// Links of stacked sheaves, in their entry 0.
struct InSheaves;

impl Links for InSheaves {
    fn link(&self, number: u32) -> u32 {
        // A stale value is discarded; a right one is visible by the Acquire load of the head.
        numbered(number).link() as u32
    }

    fn set_link(&self, number: u32, next: u32) {
        // SAFETY: the caller owns the sheaf; it is published by the Release exchange of the head.
        unsafe { numbered(number).set_link(next as usize) };
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
        self.0.push(&InSheaves, number_of(sheaf));
    }

    pub(crate) fn pop(&self) -> Option<Sheaf> {
        self.0.pop(&InSheaves).map(numbered)
    }
}

/// Structures that all slots share have this many shards: slot `n` uses shard `n % SHARDS`.
pub(crate) const SHARDS: usize = 4;

/// Number of the current slot's shard.
pub(crate) fn shard_here() -> usize {
    current_slot() as usize % SHARDS
}

/// Empty sheaves, in shards, so that a sheaf tends to return to the CPU that has it in its caches.
static EMPTY: [Shard; SHARDS] = [const { Shard(SheafStack::new()) }; SHARDS];

/// A shard of the empty sheaves, on cache lines of its own.
#[repr(align(128))]
struct Shard(SheafStack);

/// State under the pool lock, which guards growth and the returned set.
pub(crate) struct Pool {
    /// Numbers below this have been used; 0 is never used.
    used: usize,
    /// Sheaves in the returned set.
    returned: usize,
}

pub(crate) static POOL: Lock<Pool> = Lock::new(Pool { used: 1, returned: 0 });

/// The word of a number in the returned set, which has the bit `number % 64` of it. The first
/// [`trim`] maps the set.
fn returned_word(number: usize) -> &'static AtomicU64 {
    let word = with_exposed_provenance::<AtomicU64>(RETURNED.base() + number / 64 * 8);
    // SAFETY: mapped by `trim` for all numbers that were used before it, and never unmapped; all
    // access is atomic.
    unsafe { &*word }
}

/// An empty sheaf, its sentinel not yet set; `None` when memory is out.
pub(crate) fn take_empty() -> Option<Sheaf> {
    EMPTY[shard_here()].0.pop().or_else(take_empty_slow)
}

#[cold]
fn take_empty_slow() -> Option<Sheaf> {
    pop_any().or_else(|| {
        let mut pool = POOL.lock();
        if pool.returned > 0 { Some(take_returned(&mut pool)) } else { take_new(&mut pool) }
    })
}

/// A sheaf with a new number, after any range that other mappings occupy.
fn take_new(pool: &mut Pool) -> Option<Sheaf> {
    // Doubled each time, as for chunks.
    let mut skipped = STEP_BYTES / Sheaf::BYTES;
    while pool.used <= NUMBER_MAX {
        let number = pool.used;
        match SHEAVES.grow_to((number + 1) * Sheaf::BYTES) {
            Exactly::Mapped => {
                pool.used = number + 1;
                return Some(numbered(number as u32));
            }
            // The number is the first of a step, or its sheaf would be mapped. The skipped sheaves
            // count as used for ever.
            Exactly::Occupied => pool.used = number + skipped,
            Exactly::Refused => return None,
        }
        SHEAVES.skip_to(pool.used * Sheaf::BYTES);
        skipped *= 2;
    }
    None
}

/// An empty sheaf of any shard.
fn pop_any() -> Option<Sheaf> {
    EMPTY.iter().find_map(|shard| shard.0.pop())
}

fn take_returned(pool: &mut Pool) -> Sheaf {
    for index in 0..RETURNED.mapped() / 8 {
        let word = returned_word(index * 64);
        // Relaxed, both: under the pool lock.
        let bits = word.load(Ordering::Relaxed);
        if bits != 0 {
            word.store(bits & (bits - 1), Ordering::Relaxed);
            pool.returned -= 1;
            return numbered((index * 64) as u32 + bits.trailing_zeros());
        }
    }
    sheaves_sys::report::die(format_args!("the set of returned sheaves has lost one"))
}

/// Puts back a sheaf that holds no object.
pub(crate) fn put_empty(sheaf: Sheaf) {
    EMPTY[shard_here()].0.push(sheaf);
}

/// [`trim`] holds the pool lock for this many sheaves, then lets others have it. A whole number of
/// pages.
const BATCH: usize = 256;

/// Discards every page whose sheaves are all empty. Returns the number of bytes.
pub(crate) fn trim() -> usize {
    let batches = (0..POOL.lock().used).step_by(BATCH);
    let bytes = batches.clone().map(|_| return_some(&mut POOL.lock())).sum();
    batches.for_each(|first| put_back(&mut POOL.lock(), first));
    bytes
}

/// Moves up to [`BATCH`] empty sheaves into the returned set, and discards the pages that they
/// complete. Returns the bytes of these.
fn return_some(pool: &mut Pool) -> usize {
    if RETURNED.grow_to(pool.used.div_ceil(64) * 8) != Exactly::Mapped {
        return 0;
    }
    let page_sheaves = (map::page_bytes() / Sheaf::BYTES).max(1);
    let mut bytes = 0;
    for sheaf in (0..BATCH).map_while(|_| pop_any()) {
        lock::step();
        let number = number_of(sheaf) as usize;
        // Relaxed: under the pool lock.
        returned_word(number).fetch_or(1 << (number % 64), Ordering::Relaxed);
        pool.returned += 1;
        // The last sheaf of a page to be returned completes the page, once.
        let first = number / page_sheaves * page_sheaves;
        if is_free_page(pool, first, page_sheaves) {
            let address = numbered(first as u32).address();
            // SAFETY: the page holds sheaves only, and all of them are owned by the returned set.
            // It stays mapped, so stale readers read zeros.
            unsafe { map::discard(address, page_sheaves * Sheaf::BYTES) };
            bytes += page_sheaves * Sheaf::BYTES;
        }
    }
    bytes
}

/// Makes the returned sheaves of a batch empty ones again whose pages have others in use.
fn put_back(pool: &mut Pool, first: usize) {
    let page_sheaves = (map::page_bytes() / Sheaf::BYTES).max(1);
    let end = (first + BATCH).min(pool.used).min(RETURNED.mapped() * 8);
    for first in (first..end).step_by(page_sheaves) {
        if is_free_page(pool, first, page_sheaves) {
            continue;
        }
        for number in (first..first + page_sheaves).filter(|number| is_returned(*number)) {
            // Relaxed: under the pool lock.
            returned_word(number).fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
            pool.returned -= 1;
            put_empty(numbered(number as u32));
        }
    }
}

fn is_returned(number: usize) -> bool {
    // Relaxed: under the pool lock.
    returned_word(number).load(Ordering::Relaxed) & (1 << (number % 64)) != 0
}

/// True when every sheaf of a page is in the returned set, or was never used.
fn is_free_page(pool: &Pool, first: usize, count: usize) -> bool {
    let unused = |number: usize| number == 0 || number >= pool.used;
    (first..first + count).all(|number| unused(number) || is_returned(number))
}
