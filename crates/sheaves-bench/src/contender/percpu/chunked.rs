//! `V50`, `V52` and `FIXED`: the library's allocator in its three generations, without the caches
//! in front of it. All three stand on the same memory, under the lock that the library has.

use alloc::sync::Arc;
use core::ops::Range;
use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves::percpu::dynamic::{Allocator, Backing, Config, Growth, Offset, PAGE_BYTES, Policy};
use sheaves_sys::lock::Lock;
use sheaves_sys::map;

use super::ground::{Ground, Mapping};
use super::{ChunkTally, PerCpuMemory, Tally};
use crate::contender::slot::current_cpu;
use crate::failure::{Failure, out_of_memory, refused_free};

/// The memory of all slots, as numbers.
#[derive(Clone, Debug)]
struct Rows {
    /// None: nobody writes to the objects.
    memory: Option<Arc<Mapping>>,
    slots: usize,
    stride: usize,
}

impl Rows {
    /// Where an offset lies in each slot.
    #[inline]
    fn places(&self, offset: usize) -> impl Iterator<Item = usize> {
        let start = self.memory.as_ref().map_or(0, |memory| memory.start());
        (0..self.slots).map(move |slot| start + slot * self.stride + offset)
    }
}

/// The backing: memory that is there already, and goes back page by page.
#[derive(Debug)]
struct Reserved {
    rows: Rows,
    unit_bytes: usize,
    metadata: Option<Mapping>,
}

// SAFETY: the metadata is a mapping of its own, aligned to pages, zeroed when fresh, and lives as
// long as the backing, which the allocator owns; all of it is readable and writable.
unsafe impl Backing for Reserved {
    fn reserve_metadata(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let metadata = Mapping::new(bytes).ok()?;
        let start = with_exposed_provenance_mut(metadata.start());
        self.metadata = Some(metadata);
        NonNull::new(start)
    }

    fn depopulate(&mut self, chunk: usize, pages: Range<usize>) {
        let offset = chunk * self.unit_bytes + pages.start * PAGE_BYTES;
        for place in self.rows.places(offset) {
            // SAFETY: no object of this contender lies on these pages, and others that take turns
            // on the memory do not read theirs.
            unsafe { map::discard(place, pages.len() * PAGE_BYTES) };
        }
    }
}

/// One generation of the allocator.
pub(crate) struct Chunked<P: Policy> {
    allocator: Lock<Allocator<P, Reserved>>,
    rows: Rows,
}

impl<P: Policy> PerCpuMemory for Chunked<P>
where
    Allocator<P, Reserved>: Send,
{
    type Object = Offset;
    const OUTLIVED: bool = false;
    const BY_SIZE: bool = false;

    fn new(ground: &Ground) -> Result<Chunked<P>, Failure> {
        let rows = Rows { memory: ground.shared()?, slots: ground.slots, stride: ground.stride() };
        let unit_bytes = ground.unit_bytes;
        let config =
            Config { unit_bytes, chunks_max: ground.row_bytes / unit_bytes, head_bytes: 0 };
        let backing = Reserved { rows: rows.clone(), unit_bytes, metadata: None };
        let allocator = Allocator::new(backing, config)
            .map_err(|error| Failure::run(format!("no allocator {}: {error}", P::NAME)))?;
        Ok(Chunked { allocator: Lock::new(allocator), rows })
    }

    #[inline]
    fn alloc(&self, size: usize, align: usize) -> Offset {
        let mut allocator = self.allocator.lock();
        let Ok(offset) = allocator.alloc(size, align, Growth::Allowed) else { out_of_memory() };
        if allocator.balance_wanted() {
            allocator.balance();
        }
        offset
    }

    #[inline]
    unsafe fn zero(&self, object: Offset, size: usize) {
        for place in self.rows.places(object.bytes()) {
            let place = with_exposed_provenance_mut::<u8>(place);
            // SAFETY: the object's memory in this slot; nobody has a reference to it.
            unsafe { place.write_bytes(0, size) };
        }
    }

    #[inline]
    unsafe fn free(&self, object: Offset, _size: usize) {
        let mut allocator = self.allocator.lock();
        if allocator.free(object).is_err() {
            refused_free();
        }
        if allocator.balance_wanted() {
            allocator.balance();
        }
    }

    #[inline]
    unsafe fn add(&self, object: Offset) {
        let slot = current_cpu() % self.rows.slots;
        let Some(place) = self.rows.places(object.bytes()).nth(slot) else { return };
        // SAFETY: the object's first word in this slot, aligned to 8 and accessed by atomics.
        unsafe { add_at(place) };
    }

    fn tally(&self, _objects: usize) -> Tally {
        let mut allocator = self.allocator.lock();
        let statistics = allocator.statistics();
        let metadata_bytes = statistics.chunks * statistics.metadata_bytes_per_chunk as u64;
        Tally {
            chunks: Some(ChunkTally {
                counters: allocator.counters(),
                allocations: statistics.allocations,
                chunks: statistics.chunks,
                populated_pages: statistics.populated_pages,
                metadata_bytes,
            }),
            unusable_bytes: Some(allocator.unusable_bytes() as u64),
            bytes_in_use: statistics.populated_pages * PAGE_BYTES as u64,
        }
    }
}

/// Adds 1 to a word that threads on other CPUs do not write to.
///
/// # Safety
/// The address is that of a live word, aligned to 8, which is accessed by atomics only.
#[inline]
pub(super) unsafe fn add_at(address: usize) {
    let word = with_exposed_provenance_mut::<u64>(address);
    // SAFETY: the caller's contract.
    let word = unsafe { AtomicU64::from_ptr(word) };
    // A load and a store: a thread that is moved in between may lose a count, which nobody reads.
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
