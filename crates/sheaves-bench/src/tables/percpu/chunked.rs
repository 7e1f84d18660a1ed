//! `V50`, `V52` and `FIXED`: the library's allocator and those before it, without the caches in
//! front of it. All three have the same memory, under the lock that the library has.

use alloc::sync::Arc;
use core::ops::Range;
use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_history::percpu::{self, Memory};
use sheaves_percpu::internal::dynamic::{Allocator, Backing, Config, PAGE_BYTES};
use sheaves_sys::lock::Lock;
use sheaves_sys::map;

use super::contenders::PerCpuMemory;
use super::slot_memory::{Mapping, SlotMemory};
use super::work::{ChunkWork, Work, done_by};
use crate::harness::{Failure, out_of_memory, refused_free};
use sheaves_history::cpu::current_cpu;

#[derive(Clone)]
struct Rows {
    /// None: nothing writes to the objects.
    memory: Option<Arc<Mapping>>,
    slots: usize,
    stride: usize,
}

impl Rows {
    #[inline]
    fn places(&self, offset: usize) -> impl Iterator<Item = usize> {
        let start = self.memory.as_ref().map_or(0, |memory| memory.start());
        (0..self.slots).map(move |slot| start + slot * self.stride + offset)
    }
}

/// The backing: memory that is there already, and goes back page by page.
pub(crate) struct Reserved {
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

    fn depopulate(&mut self, chunk: usize, pages: Range<usize>, _around: Range<usize>) {
        let offset = chunk * self.unit_bytes + pages.start * PAGE_BYTES;
        for place in self.rows.places(offset) {
            // SAFETY: no object of this contender lies on these pages, and others that take turns
            // on the memory do not read theirs.
            unsafe { map::discard(place, pages.len() * PAGE_BYTES) };
        }
    }
}

impl Memory for Reserved {
    fn depopulate(&mut self, chunk: usize, pages: Range<usize>) {
        Backing::depopulate(self, chunk, pages.clone(), pages);
    }
}

pub(crate) trait Divide: Sized + Send + 'static {
    /// As [`PerCpuMemory::CHURN_ROUNDS`].
    const CHURN_ROUNDS: usize = 10;

    /// Of at most `chunks_max` chunks of `unit_bytes` bytes.
    fn new(memory: Reserved, unit_bytes: usize, chunks_max: usize) -> Result<Self, Failure>;
    fn alloc(&mut self, size: usize, align: usize) -> Option<usize>;
    /// False where no object begins at the offset.
    fn free(&mut self, offset: usize) -> bool;
    /// Does what was put off, if there is anything.
    fn balance(&mut self);
    /// What it did so far and holds, and the bytes of holes too small for any object.
    fn tally(&mut self) -> (ChunkWork, usize);
}

impl Divide for Allocator<Reserved> {
    fn new(memory: Reserved, unit_bytes: usize, chunks_max: usize) -> Result<Self, Failure> {
        Allocator::new(memory, Config { unit_bytes, chunks_max })
            .ok_or_else(|| Failure::run("no memory for the metadata of the allocator"))
    }

    #[inline]
    fn alloc(&mut self, size: usize, align: usize) -> Option<usize> {
        let mut offset = [0];
        self.alloc_many(size, align, &mut offset).ok().map(|_| offset[0])
    }

    #[inline]
    fn free(&mut self, offset: usize) -> bool {
        self.free_many(&[offset]).is_ok()
    }

    #[inline]
    fn balance(&mut self) {
        if self.balance_wanted() {
            self.balance();
        }
    }

    fn tally(&mut self) -> (ChunkWork, usize) {
        let statistics = self.statistics();
        let tally = ChunkWork {
            allocations: statistics.allocations,
            chunks_live: statistics.chunks,
            populated_pages: statistics.populated_pages,
            metadata_bytes: statistics.chunks * statistics.metadata_bytes_per_chunk as u64,
            ..done_by(self.counters())
        };
        (tally, self.unusable_bytes())
    }
}

impl<const HINTS: bool> Divide for percpu::Allocator<HINTS, Reserved> {
    const CHURN_ROUNDS: usize = if HINTS { 10 } else { 2 };

    fn new(memory: Reserved, unit_bytes: usize, chunks_max: usize) -> Result<Self, Failure> {
        Ok(percpu::Allocator::new(memory, unit_bytes, chunks_max))
    }

    #[inline]
    fn alloc(&mut self, size: usize, align: usize) -> Option<usize> {
        self.alloc(size, align)
    }

    #[inline]
    fn free(&mut self, offset: usize) -> bool {
        self.free(offset)
    }

    #[inline]
    fn balance(&mut self) {
        if self.balance_wanted() {
            self.balance();
        }
    }

    fn tally(&mut self) -> (ChunkWork, usize) {
        let (statistics, done) = (self.statistics(), self.work());
        let tally = ChunkWork {
            allocations: statistics.allocations,
            chunks_tested: done.chunks_tested as f64,
            words_read: done.words_read as f64,
            block_refreshes: done.block_refreshes as f64,
            blocks_visited: done.blocks_refreshed as f64,
            relegations: done.relegations,
            chunks_live: statistics.chunks,
            populated_pages: statistics.populated_pages,
            metadata_bytes: statistics.metadata_bytes,
        };
        (tally, self.unusable_bytes())
    }
}

pub(crate) struct Chunked<D> {
    allocator: Lock<D>,
    rows: Rows,
}

impl<D: Divide> PerCpuMemory for Chunked<D> {
    type Object = usize;
    const CHURN_ROUNDS: usize = D::CHURN_ROUNDS;
    const OUTLIVED: bool = false;
    const BY_SIZE: bool = false;

    fn new(memory: &SlotMemory) -> Result<Chunked<D>, Failure> {
        let rows = Rows { memory: memory.shared()?, slots: memory.slots, stride: memory.stride() };
        let unit_bytes = memory.unit_bytes;
        let backing = Reserved { rows: rows.clone(), unit_bytes, metadata: None };
        let allocator = D::new(backing, unit_bytes, memory.row_bytes / unit_bytes)?;
        Ok(Chunked { allocator: Lock::new(allocator), rows })
    }

    #[inline]
    fn alloc(&self, size: usize, align: usize) -> usize {
        let mut allocator = self.allocator.lock();
        let Some(offset) = allocator.alloc(size, align) else { out_of_memory() };
        allocator.balance();
        offset
    }

    #[inline]
    unsafe fn zero(&self, object: usize, size: usize) {
        for place in self.rows.places(object) {
            let place = with_exposed_provenance_mut::<u8>(place);
            // SAFETY: the object's memory in this slot; no reference to it exists.
            unsafe { place.write_bytes(0, size) };
        }
    }

    #[inline]
    unsafe fn free(&self, object: usize, _size: usize) {
        let mut allocator = self.allocator.lock();
        if !allocator.free(object) {
            refused_free();
        }
        allocator.balance();
    }

    #[inline]
    unsafe fn add(&self, object: usize) {
        let slot = current_cpu() % self.rows.slots;
        let Some(place) = self.rows.places(object).nth(slot) else { return };
        // SAFETY: the object's first word in this slot, aligned to 8 and accessed by atomics.
        unsafe { add_at(place) };
    }

    fn tally(&self, _objects: usize) -> Work {
        let (chunks, unusable_bytes) = self.allocator.lock().tally();
        Work { unusable_bytes: Some(unusable_bytes as u64), ..Work::of_chunks(chunks) }
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
    // A load and a store: a thread that is moved in between may lose a count, which nothing reads.
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
