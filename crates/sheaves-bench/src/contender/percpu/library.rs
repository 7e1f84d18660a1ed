//! `FIXED+caches`: the library's per-CPU memory as programs use it, with its caches of free objects
//! in each slot, on the engine and the slots of this machine.
//!
//! Free objects are zero there: who gives one back has zeroed it, in the slots that were used. So
//! there is nothing to be zeroed at allocation, and the figures of zeroing are those of freeing.

use sheaves::percpu::dynamic::PAGE_BYTES;
use sheaves::percpu::memory::{self, Handle, Statistics};

use super::ground::Ground;
use super::{ChunkTally, PerCpuMemory, Tally};
use crate::failure::{Failure, out_of_memory, refused_free};

/// Bytes of a chunk in one slot, as the library has it.
pub(crate) const UNIT_BYTES: usize = 64 << 10;

/// The library, and what it held before.
pub(crate) struct Library {
    before: Option<Statistics>,
}

impl PerCpuMemory for Library {
    type Object = Handle;
    const OUTLIVED: bool = true;

    fn new(_ground: &Ground) -> Result<Library, Failure> {
        // What an earlier sample left at hand would be a head start.
        memory::trim();
        Ok(Library { before: memory::statistics() })
    }

    #[inline]
    fn alloc(&self, size: usize, align: usize) -> Handle {
        memory::alloc(size, align).unwrap_or_else(|_| out_of_memory())
    }

    #[inline]
    unsafe fn zero(&self, _object: Handle, _size: usize) {}

    #[inline]
    unsafe fn free(&self, object: Handle, _size: usize) {
        // SAFETY: the caller's contract.
        if unsafe { memory::free(object) }.is_err() {
            refused_free();
        }
    }

    #[inline]
    unsafe fn add(&self, object: Handle) {
        // SAFETY: the caller's contract; only transactions change these bytes.
        unsafe { memory::add(object, 0, 1) };
    }

    fn tally(&self, _objects: usize) -> Tally {
        let Some(now) = memory::statistics() else {
            // Nobody has allocated yet.
            let chunks = Some(ChunkTally::default());
            return Tally { chunks, unusable_bytes: None, bytes_in_use: 0 };
        };
        let grown = |number: fn(&Statistics) -> u64| {
            number(&now).saturating_sub(self.before.as_ref().map_or(0, number))
        };
        let chunks = grown(|statistics| statistics.allocator.chunks);
        let populated_pages = grown(|statistics| statistics.allocator.populated_pages);
        Tally {
            chunks: Some(ChunkTally {
                counters: now.counters,
                allocations: now.allocator.allocations,
                chunks,
                populated_pages,
                metadata_bytes: chunks * now.allocator.metadata_bytes_per_chunk as u64,
            }),
            unusable_bytes: None,
            bytes_in_use: populated_pages * PAGE_BYTES as u64,
        }
    }
}
