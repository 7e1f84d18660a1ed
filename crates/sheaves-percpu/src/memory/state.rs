//! What the memory lock guards: the allocator of this process, whose memory is the rows and a range
//! after them for its metadata; and the pool of empty sheaves for the caches. Sheaves are never
//! unmapped: a slot needs one for each size class that it uses.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::{map, tsan};

#[cfg(any(test, feature = "counters"))]
use crate::dynamic::Counters;
use crate::dynamic::{
    Allocator, Backing, Config, Error, PAGE_BYTES, Shape, Statistics as AllocatorStatistics,
};
use crate::memory::class::CLASSES;
use crate::memory::handle_map;
use crate::sheaf::{Sheaf, Taken};
use crate::word::{BLOCK_BYTES, Region};
use crate::{rows, slots};

/// Bytes of a chunk in one row.
const UNIT_BYTES: usize = 64 << 10;
/// Rows grow by 1/8 of their size, so that the number of system calls is logarithmic.
const GROWTH_SHARE: usize = 8;
const METADATA_STEP_BYTES: usize = 64 << 10;

/// All rows, and the metadata that describes them.
///
/// Chunks are ranges of offsets, so a chunk is created by committing more of the rows. Rows never
/// shrink; only pages are discarded. [`rows`] has placed the metadata, so an allocator that could
/// not be created has nothing to free.
#[derive(Debug)]
pub(crate) struct Rows;

const METADATA: usize = 2;

// SAFETY: 1. the metadata has its own range in the rows' address space, aligned to pages and never
// unmapped; 2. what was committed stays readable and writable; 3. only ranges that the allocator
// released are discarded, and only their whole pages.
unsafe impl Backing for Rows {
    fn reserve_metadata(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let part = &rows::ONCE[METADATA];
        if bytes > part.bytes_max() {
            return None;
        }
        NonNull::new(core::ptr::with_exposed_provenance_mut(part.start()))
    }

    fn commit_metadata(&mut self, range: Range<usize>) -> bool {
        let wish = range.end.next_multiple_of(METADATA_STEP_BYTES);
        let wish = wish.min(rows::ONCE[METADATA].bytes_max());
        rows::commit_once(METADATA, wish) || rows::commit_once(METADATA, range.end)
    }

    fn release_metadata(&mut self, range: Range<usize>, around: Range<usize>) {
        // SAFETY: committed, and the allocator no longer needs what is there.
        unsafe { rows::discard(rows::ONCE[METADATA].start(), &range, &around) };
    }

    fn create_chunk(&mut self, chunk: usize) -> bool {
        let need = (chunk + 1) * UNIT_BYTES;
        let _slots = slots::SLOTS.lock();
        let committed = rows::committed_bytes();
        // A chunk that was destroyed before is still committed, and so is the first one if a page
        // is as large as a chunk.
        let more = if need > committed { committed / GROWTH_SHARE } else { 0 };
        let wish = need.max(committed + more).min(rows::row_bytes());
        // The map first: every object in committed rows needs its byte.
        let grow = |bytes| handle_map::commit(bytes) && rows::commit(bytes);
        grow(wish) || grow(need)
    }

    fn destroy_chunk(&mut self, chunk: usize, around: Range<usize>) {
        let bytes = |chunks: Range<usize>| chunks.start * UNIT_BYTES..chunks.end * UNIT_BYTES;
        handle_map::discard(bytes(chunk..chunk + 1), bytes(around));
    }

    fn depopulate(&mut self, chunk: usize, pages: Range<usize>, around: Range<usize>) {
        let byte = |page: usize| chunk * UNIT_BYTES + page * PAGE_BYTES;
        let [pages, around] = [pages, around].map(|pages| byte(pages.start)..byte(pages.end));
        for index in rows::open_rows() {
            // SAFETY: committed; the allocator guarantees that no object is on the pages around.
            unsafe { rows::discard(rows::row(index), &pages, &around) };
        }
    }
}

const _: () = assert!(crate::word::BLOCK_BYTES < UNIT_BYTES);

/// Bytes that are mapped at a time. A sheaf's memory is first touched at its first use.
const MAP_BYTES: usize = 64 * Sheaf::BYTES;

pub(crate) struct State {
    pub(super) allocator: Option<Allocator<Rows>>,
    /// The sheaves that are in no slot and were in use before.
    sheaves: Taken,
    /// Addresses of the sheaves that were never used.
    fresh: Range<usize>,
}

/// The memory lock. Taken before the slots lock.
pub(crate) static MEMORY: Lock<State> =
    Lock::new(State { allocator: None, sheaves: Taken::new(), fresh: 0..0 });

/// True once the words of the caches are prepared in every block, present and future.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

#[inline]
pub(super) fn is_open() -> bool {
    // Acquire pairs with the Release in `start`.
    IS_OPEN.load(Ordering::Acquire)
}

impl State {
    /// Creates the allocator of the rows, behind the blocks, once: opens the shared row and
    /// prepares the words of the caches. After the engine's start.
    fn start(&mut self) -> Result<&mut Allocator<Rows>, Error> {
        if self.allocator.is_none() {
            let chunks_max = rows::row_bytes() / UNIT_BYTES;
            let config = Config { unit_bytes: UNIT_BYTES, chunks_max };
            // A limit on the address space can leave the rows without room for a chunk.
            let is_open = BLOCK_BYTES < chunks_max * UNIT_BYTES && {
                let _slots = slots::SLOTS.lock();
                rows::open(rows::shared())
            };
            let made = if is_open { Allocator::new(Rows, config) } else { None };
            let mut made = made.ok_or(Error::NoMemory)?;
            // The first object, which is never freed, is the blocks at the start of the rows.
            let mut blocks = [usize::MAX];
            made.alloc_many(BLOCK_BYTES, PAGE_BYTES, &mut blocks)?;
            debug_assert!(blocks == [0]);
            self.allocator = Some(made);
            slots::prepare(Region::OWN, CLASSES);
            // Release pairs with the Acquire in `is_open`.
            IS_OPEN.store(true, Ordering::Release);
        }
        self.allocator.as_mut().ok_or(Error::NoMemory)
    }

    /// Allocates at least one object of a shape from the allocator; fills `offsets` from its start.
    pub(super) fn alloc(&mut self, shape: Shape, offsets: &mut [usize]) -> Result<usize, Error> {
        tsan::unseen(|| self.start()?.alloc_many(shape.size, shape.align, offsets))
    }

    /// A sheaf for the caller, with room for [`Sheaf::OBJECTS_MAX`]; `None` when memory is out.
    pub(super) fn take_sheaf(&mut self) -> Option<Sheaf> {
        if let Some((_, cursor)) = self.sheaves.next() {
            return Some(cursor.sheaf());
        }
        if self.fresh.is_empty() {
            let start = map::anywhere(MAP_BYTES)?;
            self.fresh = start..start + MAP_BYTES;
        }
        // SAFETY: mapped above, for this use alone, and never unmapped.
        let sheaf = unsafe { Sheaf::at(self.fresh.start) };
        // SAFETY: no other thread knows the sheaf.
        unsafe { sheaf.format(Sheaf::OBJECTS_MAX) };
        self.fresh.start += Sheaf::BYTES;
        Some(sheaf)
    }

    /// # Safety
    /// The caller owns the sheaf, which is from [`State::take_sheaf`], and gives it up.
    pub(super) unsafe fn put_sheaf(&mut self, sheaf: Sheaf) {
        // SAFETY: the same contract.
        unsafe { self.sheaves.add(0, sheaf.cursor(0)) };
    }
}

/// Flushes objects, which are zero in every row, to the allocator, then balances it, at most once
/// for each of them: objects of many chunks may have been the last of theirs. Sorts the list.
pub(super) fn free(offsets: &mut [usize]) {
    let mut memory = MEMORY.lock();
    let Some(allocator) = &mut memory.allocator else { return };
    tsan::unseen(|| offsets.sort_unstable());
    if let Err((offset, error)) = tsan::unseen(|| allocator.free_many(offsets)) {
        let text = "per-CPU memory is corrupt: the object at offset";
        sheaves_sys::report::die(format_args!("{text} {offset:#x}: {error}"));
    }
    for _ in offsets {
        let allocator = memory.allocator.as_mut().filter(|it| it.balance_wanted());
        let Some(allocator) = allocator else { return };
        allocator.balance();
        // One piece of work for each time that the lock is held.
        drop(memory);
        memory = MEMORY.lock();
    }
}

/// The state of per-CPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The allocator's statistics, which count cached objects as allocated. Bytes and pages are
    /// those of one slot.
    pub allocator: AllocatorStatistics,
    /// How much work the allocator has done.
    #[cfg(any(test, feature = "counters"))]
    pub counters: Counters,
    /// Slots that threads have used.
    pub slots_used: usize,
    /// Committed bytes of each used slot's row.
    pub committed_bytes: usize,
    /// Bytes that each slot's row can grow to.
    pub row_bytes: usize,
}

/// Statistics of per-CPU memory; `None` before the first allocation. Takes locks for microseconds.
#[must_use]
pub fn statistics() -> Option<Statistics> {
    let mut memory = MEMORY.lock();
    let allocator = memory.allocator.as_mut()?;
    let mut of_allocator = allocator.statistics();
    // Without the blocks.
    of_allocator.allocations -= 1;
    Some(Statistics {
        allocator: of_allocator,
        #[cfg(any(test, feature = "counters"))]
        counters: allocator.counters(),
        slots_used: slots::slots_used(),
        committed_bytes: rows::committed_bytes(),
        row_bytes: rows::row_bytes(),
    })
}
