//! Tables: an array of buckets, and how far its entries have moved to the next table.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use sheaves_heap as heap;
use sheaves_percpu::Counter;
use sheaves_rcu::defer::Head;
use sheaves_sys::fork;

use super::bucket::{Bucket, Place};
use super::lock::MOVED;
use super::pages;
use crate::Sheaves;

/// Buckets of the smallest table.
pub(in crate::map) const BUCKETS_MIN: usize = 16;
/// Bits of its hash that a place holds beside the address of an entry.
pub(in crate::map) const PLACE_BITS: u32 = 16;

/// The head of a table; its buckets follow.
///
/// | `next` | `moved` | state |
/// |---|---|---|
/// | null | 0 | the table of the map |
/// | a table | below the number of units | entries move there, unit by unit |
/// | a table | all units | readers and writers that still find this table go on to `next` |
///
/// A unit whose chains are locked when it is claimed is left for later: see `passed`.
///
/// A unit is a bucket of the smaller of the two tables, and the buckets of the larger one that it
/// corresponds to: two, or four of them if a small table grows.
#[repr(C, align(64))]
pub(in crate::map) struct Table<P: Place> {
    /// Number of buckets - 1; they are a power of two.
    mask: usize,
    /// The series to which the table belongs. It is freed after its tables.
    pub(in crate::map) series: *mut Series<P>,
    /// The table that the entries move to.
    pub(in crate::map) next: AtomicPtr<Table<P>>,
    /// Units that a thread has claimed to move.
    pub(in crate::map) claimed: AtomicUsize,
    /// Units that have moved. Each is counted at most once, by the thread that has moved it, so
    /// all have moved if this is their number. Too low where that thread is not in this process.
    pub(in crate::map) moved: AtomicUsize,
    /// All units below this one have moved. Counted only when units were left.
    pub(in crate::map) passed: AtomicUsize,
    /// A thread has claimed a unit and left it, because its chains were locked.
    is_left: AtomicBool,
    /// See [`bits_shift`].
    pub(in crate::map) bits_shift: u8,
    /// 1 + the generation of the process in which a thread last began to make the next table.
    pub(in crate::map) ended_in: AtomicUsize,
}

impl<P: Place> Table<P> {
    /// A table, or null when memory is out. Its buckets are empty if `is_first`; else their memory
    /// is as it comes, and moves clear it, unit by unit.
    pub(in crate::map) fn new(
        buckets: usize,
        series: *mut Series<P>,
        is_first: bool,
    ) -> *mut Table<P> {
        const { assert!(size_of::<Table<P>>() <= Bucket::<P>::BYTES) };
        debug_assert!(buckets.is_power_of_two());
        let Some(layout) = layout::<P>(buckets) else { return null_mut() };
        let block = if is_first {
            // SAFETY: the size is not 0.
            unsafe { Sheaves.alloc_zeroed(layout) }
        } else {
            heap::alloc_layout(layout)
        };
        // For `pointer`.
        let _ = block.expose_provenance();
        let table = block.cast::<Table<P>>();
        if !table.is_null() {
            pages::advise(block, layout);
            // SAFETY: large enough and aligned, and no other thread knows it.
            unsafe { table.write_bytes(0, 1) };
            // SAFETY: as above; all zeros is a table.
            let table = unsafe { &mut *table };
            table.mask = buckets - 1;
            table.series = series;
            table.bits_shift = bits_shift(buckets);
        }
        table
    }

    /// True if there is memory for a table of that size.
    pub(in crate::map) fn is_possible(buckets: usize) -> bool {
        let table = Self::new(buckets, null_mut(), false);
        // SAFETY: null, or made above, and no other thread knows it.
        unsafe { heap::free(table.cast()) };
        !table.is_null()
    }

    /// Buckets for that many entries. More than there is memory for is as good as the most.
    pub(in crate::map) fn buckets_for(entries: usize) -> usize {
        let buckets = entries.div_ceil(P::ENTRIES_MAX).max(BUCKETS_MIN);
        buckets.checked_next_power_of_two().unwrap_or(usize::MAX / 2 + 1)
    }

    /// The most entries for which it is made.
    pub(in crate::map) fn capacity(&self) -> usize {
        self.buckets().saturating_mul(P::ENTRIES_MAX)
    }

    #[inline(always)]
    pub(in crate::map) fn buckets(&self) -> usize {
        self.mask + 1
    }

    /// The number of entries in all tables of the series.
    #[inline(always)]
    pub(in crate::map) fn count(&self) -> &Counter {
        // SAFETY: the series is not freed before its tables; after `begin` the counter is only
        // shared.
        unsafe { &(*self.series).count }
    }

    /// [`Table::count`], as a size.
    pub(in crate::map) fn len(&self) -> usize {
        usize::try_from(self.count().sum()).unwrap_or(0)
    }

    /// The first bucket of the chain for a hash, or a number.
    #[inline(always)]
    pub(in crate::map) fn bucket(&self, hash: u64) -> &Bucket<P> {
        // SAFETY: there is one with this number, and it lives as long as the table. Those that may
        // not be initialized are not reached, and are cleared before they are.
        unsafe { &*self.at(hash as usize & self.mask) }
    }

    /// A pointer to the whole block: a reference to the head is one to no more than that.
    #[inline(always)]
    pub(in crate::map) fn pointer(&self) -> *mut Table<P> {
        core::ptr::with_exposed_provenance_mut(core::ptr::from_ref(self).addr())
    }

    /// The place of a bucket: after the head, which is no larger than a bucket.
    #[inline(always)]
    fn at(&self, number: usize) -> *mut Bucket<P> {
        self.pointer().cast::<Bucket<P>>().wrapping_add(1 + number)
    }

    /// Number of units of a move between these tables.
    pub(in crate::map) fn units(&self, other: &Table<P>) -> usize {
        self.buckets().min(other.buckets())
    }

    /// The numbers of a unit's buckets: several in the larger table.
    fn numbers(&self, unit: usize, units: usize) -> impl Iterator<Item = usize> + use<P> {
        // Without a division, as `step_by` has one.
        let shift = units.trailing_zeros();
        (0..self.buckets() >> shift).map(move |index| unit + (index << shift))
    }

    /// The chains of a unit.
    pub(in crate::map) fn chains(
        &self,
        unit: usize,
        units: usize,
    ) -> impl Iterator<Item = &Bucket<P>> {
        self.numbers(unit, units).map(|number| self.bucket(number as u64))
    }

    /// Empties the chains of a unit. Their memory is as it came, or a thread that is not in this
    /// process has begun to fill them; then their overflow buckets leak.
    ///
    /// # Safety
    /// No other thread reaches the chains yet.
    pub(in crate::map) unsafe fn clear(&self, unit: usize, units: usize) {
        for number in self.numbers(unit, units) {
            // SAFETY: a bucket of the table, that nothing else uses. All zeros is an empty one.
            unsafe { self.at(number).write_bytes(0, 1) };
        }
    }

    /// Notes that a claimed unit has not moved.
    pub(in crate::map) fn leave(&self) {
        // Relaxed: a hint, see `has_left`.
        self.is_left.store(true, Ordering::Relaxed);
    }

    /// True if claimed units may have been left: by a thread that found them locked, or one that
    /// is not in this process.
    pub(in crate::map) fn has_left(&self) -> bool {
        // Relaxed, both: hints; the marks of the chains say what has moved.
        let is_inherited = self.ended_in.load(Ordering::Relaxed) != fork::generation() + 1;
        is_inherited || self.is_left.load(Ordering::Relaxed)
    }

    /// True for the second chain of a unit whose first one is marked: the next table has the
    /// entries of both.
    ///
    /// # Safety
    /// The next table is not freed meanwhile.
    #[cold]
    pub(in crate::map) unsafe fn is_half_marked(&self, hash: u64) -> bool {
        // SAFETY: the caller's contract.
        let Some(next) = (unsafe { self.next() }) else { return false };
        let (units, number) = (self.units(next), hash as usize & self.mask);
        number >= units && self.bucket((number - units) as u64).word() & MOVED != 0
    }

    /// True if a unit has moved: the mark of its last chain is made last.
    pub(in crate::map) fn has_moved(&self, unit: usize, units: usize) -> bool {
        self.bucket((unit + self.buckets() - units) as u64).word() & MOVED != 0
    }

    /// The table that the entries move to.
    ///
    /// # Safety
    /// It is not freed while the reference is used.
    #[inline(always)]
    pub(in crate::map) unsafe fn next<'a>(&self) -> Option<&'a Table<P>> {
        // Acquire pairs with the Release in `start`: the table. [M4]
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: null, or a table that the caller keeps alive.
        unsafe { next.as_ref() }
    }

    #[inline(always)]
    pub(in crate::map) fn is_moving(&self) -> bool {
        // Relaxed: a hint; a caller that continues loads `next`.
        !self.next.load(Ordering::Relaxed).is_null()
    }

    /// Frees a table after a grace period.
    ///
    /// # Safety
    /// From [`Table::new`], and only readers still use it.
    pub(in crate::map) unsafe fn retire(&self) {
        let Some(layout) = layout::<P>(self.buckets()) else { return };
        // SAFETY: from the heap; the layout is the one that it was made with.
        unsafe { pages::free_rcu(self.pointer().cast(), layout) };
    }
}

/// Places whose entries move, in maps with this hasher.
pub(in crate::map) trait Rehash<S>: Place {
    /// What a place of this table holds for an entry with this hash.
    fn with_hash(content: Self::Content, hash: u64, table: &Table<Self>) -> Self::Content;

    /// The hash of what is at a place, or only its bits that select buckets of these tables.
    ///
    /// # Safety
    /// The entry is in the first table, and its chain is locked.
    unsafe fn hash(content: Self::Content, hasher: &S, from: &Table<Self>, to: &Table<Self>)
    -> u64;
}

/// A series of tables, see `series`. The head is first, so that it has the address of the block.
#[repr(C)]
pub(in crate::map) struct Series<P: Place> {
    head: Head,
    /// The number of entries.
    pub(in crate::map) count: Counter,
    /// The table that was exchanged, and the bytes that were counted as deferred. Written when the
    /// series is retired, by the thread that has exchanged it.
    pub(in crate::map) ending: (*mut Table<P>, usize),
}

impl<P: Place> Series<P> {
    const LAYOUT: Layout = Layout::new::<Series<P>>();

    /// Makes a series; returns its first table, or null when memory is out.
    pub(in crate::map) fn begin(buckets: usize) -> *mut Table<P> {
        let series = heap::alloc_layout(Self::LAYOUT).cast::<Series<P>>();
        if series.is_null() {
            return null_mut();
        }
        let empty = Series { head: Head::new(), count: Counter::new(), ending: (null_mut(), 0) };
        // SAFETY: by the layout there is room for it, and the memory is ours.
        unsafe { series.write(empty) };
        let table = Table::new(buckets, series, true);
        if table.is_null() {
            // SAFETY: made above, and no other thread knows it.
            unsafe { Series::free(series) };
        }
        table
    }

    /// # Safety
    /// From [`Series::begin`], and not used any more.
    pub(in crate::map) unsafe fn free(series: *mut Series<P>) {
        // SAFETY: the caller's contract. Moved out: dropping the counter may take a lock.
        drop(unsafe { series.read() });
        // SAFETY: from `begin`, with this layout.
        unsafe { heap::dealloc_layout(series.cast(), Self::LAYOUT) };
    }
}

/// The lowest bit of hashes that places of such a table hold, if they do. Bits are exhausted once
/// in 16 doublings. The move after that hashes the keys again.
fn bits_shift(buckets: usize) -> u8 {
    let least = BUCKETS_MIN.ilog2();
    (least + (buckets.ilog2() - least) / PLACE_BITS * PLACE_BITS) as u8
}

/// The layout of a head and that many buckets; `None` when it is too large.
fn layout<P: Place>(buckets: usize) -> Option<Layout> {
    Layout::array::<Bucket<P>>(buckets.checked_add(1)?).ok()
}
