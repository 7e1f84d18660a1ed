//! What a contender of `percpu` is: anything that can hand out an object that has a place in every
//! slot.

use sheaves_history::percpu::Work as Done;
use sheaves_percpu::internal::dynamic::Counters;

use super::slot_memory::SlotMemory;
use super::work::{ChunkWork, Work};
use crate::harness::failure::Failure;

/// Hands out per-CPU memory and takes it back.
///
/// Contenders are called from several threads and lock whatever they must. One that finds no
/// memory ends the program.
pub(super) trait PerCpuMemory: Sized + Send + Sync + 'static {
    /// What stands for an object.
    type Object: Copy + Send + Sync + 'static;

    /// Rounds of a sample of `churn`: fewer where one takes seconds.
    const CHURN_ROUNDS: usize = 10;

    /// Whether its objects outlive it, so that each has to be freed.
    const OUTLIVED: bool;

    /// Whether objects of one size lie side by side, so that alignment forces no holes between
    /// those of different sizes.
    const BY_SIZE: bool;

    /// A contender without objects.
    fn new(memory: &SlotMemory) -> Result<Self, Failure>;

    /// An object in every slot, with any content.
    fn alloc(&self, size: usize, align: usize) -> Self::Object;

    /// Makes an object zero in every slot, outside of all locks; nothing where it is zero already.
    ///
    /// # Safety
    /// The object came from this contender with this size and is not freed.
    unsafe fn zero(&self, object: Self::Object, size: usize);

    /// Takes an object back.
    ///
    /// # Safety
    /// As [`PerCpuMemory::zero`]; the object is not used any more.
    unsafe fn free(&self, object: Self::Object, size: usize);

    /// Adds 1 to the object's first word in the slot of this CPU.
    ///
    /// # Safety
    /// As [`PerCpuMemory::zero`]; the object has 8 bytes at least, aligned to 8.
    unsafe fn add(&self, object: Self::Object);

    /// What it did so far, and what it holds for the `objects` that are out.
    fn tally(&self, objects: usize) -> Tally;
}

/// What a contender did, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tally {
    /// Where there are chunks.
    pub(super) chunks: Option<ChunkTally>,
    /// Free bytes of one slot in runs that are too short for any object so far.
    pub(super) unusable_bytes: Option<u64>,
    /// Bytes of one slot that hold memory.
    pub(super) bytes_in_use: u64,
}

/// The same of an allocator that works with chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkTally {
    pub(super) done: Done,
    pub(super) allocations: u64,
    pub(super) chunks: u64,
    pub(super) populated_pages: u64,
    pub(super) metadata_bytes: u64,
}

impl Tally {
    /// What was done after `before`, and what there is now; the objects need `bytes_ideal`.
    pub(super) fn work_since(&self, before: &Tally, bytes_ideal: u64) -> Work {
        let chunks = self.chunks.zip(before.chunks);
        Work {
            chunks: chunks.map(|(now, before)| now.work_since(&before)),
            unusable_bytes: self.unusable_bytes,
            bytes_in_use: self.bytes_in_use,
            bytes_ideal,
        }
    }
}

impl ChunkTally {
    fn work_since(&self, before: &ChunkTally) -> ChunkWork {
        let allocations = (self.allocations - before.allocations).max(1) as f64;
        let since = |number: fn(&Done) -> u64| number(&self.done) - number(&before.done);
        let each = |number| since(number) as f64 / allocations;
        ChunkWork {
            chunks_tested: each(|done| done.chunks_tested),
            words_read: each(|done| done.words_read),
            block_refreshes: each(|done| done.block_refreshes),
            blocks_visited: each(|done| done.blocks_refreshed),
            relegations: since(|done| done.relegations),
            chunks_live: self.chunks,
            populated_pages: self.populated_pages,
            metadata_bytes: self.metadata_bytes,
        }
    }
}

/// The library's counts, as those of the allocators before it.
pub(super) fn done_by(counters: Counters) -> Done {
    let Counters { chunks_tested, words_read, page_refreshes, pages_refreshed, .. } = counters;
    let relegations = counters.relegations;
    Done {
        chunks_tested,
        words_read,
        block_refreshes: page_refreshes,
        blocks_refreshed: pages_refreshed,
        relegations,
    }
}
