//! The fallbacks of deferring when memory for another buffer or block is out.
//!
//! | rung | what is done | cost |
//! |---|---|---|
//! | 0 | a unit of the pool | none |
//! | 1 | a reserved block | none |
//! | 2 | the head in the object is linked | its entry is not beside others in memory |
//! | 3 | no head: the caller waits for a grace period, and frees | a grace period |
//! | 4 | no head, inside a read section: leaked, with a report | the memory |
//!
//! Deferred callbacks have a head, and use rungs 0 and 2 only. Nothing is ever freed too early.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::fault::FAULTS;
use super::pool::{BLOCK_BYTES, BLOCKS};

/// Indexes of the rungs that are counted.
pub(super) const RESERVED: usize = 0;
pub(super) const LINKED: usize = 1;
pub(super) const WAITED: usize = 2;
pub(super) const LEAKED: usize = 3;

/// How often each rung was used.
static REACHED: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Number of reserved blocks. They are static data, so they always exist.
const BLOCKS_RESERVED: usize = 4;

#[repr(C, align(4096))]
struct Reserve([UnsafeCell<[u8; BLOCK_BYTES]>; BLOCKS_RESERVED]);

// SAFETY: a block belongs to the thread that has set its bit in `TAKEN`.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve([const { UnsafeCell::new([0; BLOCK_BYTES]) }; BLOCKS_RESERVED]);
/// One bit for each reserved block that is in use.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// How often deferring had to fall back because memory was out, by fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emergencies {
    /// Reserved blocks that were used.
    pub from_the_reserve: u64,
    /// Heads that were linked.
    pub linked: u64,
    /// Objects for which the caller waited for a grace period itself.
    pub waits: u64,
    /// Objects that will never be freed: the caller was inside a read section.
    pub leaks: u64,
}

pub(super) fn emergencies() -> Emergencies {
    // Relaxed: statistics.
    let [from_the_reserve, linked, waits, leaks] =
        core::array::from_fn(|rung| REACHED[rung].load(Ordering::Relaxed));
    Emergencies { from_the_reserve, linked, waits, leaks }
}

/// Counts the use of a rung; returns how often it was used before.
pub(super) fn reach(rung: usize) -> u64 {
    // Relaxed: statistics.
    REACHED[rung].fetch_add(1, Ordering::Relaxed)
}

/// Memory for a block, from rung 0 or 1.
pub(super) fn take_block() -> Option<usize> {
    BLOCKS.take().or_else(take_reserved)
}

#[cold]
fn take_reserved() -> Option<usize> {
    if FAULTS.fails() {
        return None;
    }
    let free = |taken: u32| {
        let bit = taken.trailing_ones();
        (bit < BLOCKS_RESERVED as u32).then_some(taken | (1 << bit))
    };
    // Acquire pairs with the Release in `give_block`: its last owner is done with it. Relaxed on
    // failure: nothing is taken. [E1]
    let before = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free).ok()?;
    reach(RESERVED);
    Some(RESERVE.0[before.trailing_ones() as usize].get().expose_provenance())
}

/// Returns a block.
///
/// # Safety
/// It came from [`take_block`], and is not used any more.
pub(super) unsafe fn give_block(block: usize) {
    let reserve = (&raw const RESERVE).addr();
    match block.checked_sub(reserve) {
        Some(offset) if offset < size_of::<Reserve>() => {
            // Release pairs with the Acquire in `take_reserved`. [E1]
            TAKEN.fetch_and(!(1 << (offset / BLOCK_BYTES)), Ordering::Release);
        }
        // SAFETY: not from the reserve, so from the pool.
        _ => unsafe { BLOCKS.give(block) },
    }
}

const _: () = assert!(size_of::<Reserve>() == BLOCKS_RESERVED * BLOCK_BYTES);
