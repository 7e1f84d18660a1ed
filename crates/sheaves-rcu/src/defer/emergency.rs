//! What deferring does when there is no memory for another buffer or block.
//!
//! | rung | what is done | cost |
//! |---|---|---|
//! | 0 | a unit of the pool | none |
//! | 1 | a block that was set aside | none |
//! | 2 | the head in the object is linked | an entry without its neighbours |
//! | 3 | no head: the caller waits for readers, and frees | a grace period |
//! | 4 | no head, and the caller reads: never freed, with a line | the memory |
//!
//! Deferred calls have a head, and know rungs 0 and 2 alone. Nothing is ever freed too early.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::fault::FAULTS;
use super::pool::{BLOCK_BYTES, BLOCKS};

/// Rungs that are counted.
pub(super) const RESERVED: usize = 0;
pub(super) const LINKED: usize = 1;
pub(super) const WAITED: usize = 2;
pub(super) const LEAKED: usize = 3;

/// How often each rung was reached.
static REACHED: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Blocks that are set aside: part of the program, so that they are always there.
const BLOCKS_RESERVED: usize = 4;

#[repr(C, align(4096))]
struct Reserve([UnsafeCell<[u8; BLOCK_BYTES]>; BLOCKS_RESERVED]);

// SAFETY: a block belongs to whoever has set its bit in `TAKEN`.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve([const { UnsafeCell::new([0; BLOCK_BYTES]) }; BLOCKS_RESERVED]);
/// One bit for each of them that is in use.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// What deferring did without memory, by what it did then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Emergencies {
    /// Blocks that had been set aside.
    pub from_the_reserve: u64,
    /// Heads that were linked.
    pub linked: u64,
    /// Objects for which the caller waited for readers itself.
    pub waits: u64,
    /// Objects that will never be freed: the caller was inside of a read section.
    pub leaks: u64,
}

pub(super) fn emergencies() -> Emergencies {
    // Relaxed: statistics.
    let [from_the_reserve, linked, waits, leaks] =
        core::array::from_fn(|rung| REACHED[rung].load(Ordering::Relaxed));
    Emergencies { from_the_reserve, linked, waits, leaks }
}

/// Counts that a rung was reached; how often it had been before.
pub(super) fn reach(rung: usize) -> u64 {
    // Relaxed: statistics.
    REACHED[rung].fetch_add(1, Ordering::Relaxed)
}

/// Memory for a block, by rung 0 or 1.
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

/// Takes a block back.
///
/// # Safety
/// It came from [`take_block`], and nobody uses it any more.
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
