//! The allocator: which chunk gets a request, what happens around it, what comes back.
//!
//! Single-threaded; its owner holds a lock around each call. No call waits, and none touches the
//! memory that is handed out.

use crate::dynamic::backing::Backing;
use crate::dynamic::chunk::{mask, pages_of, ranges};
use crate::dynamic::config::{Config, GRAIN_BYTES, Geometry, Growth, Offset, Request, bytes_of};
use crate::dynamic::counters::Counters;
use crate::dynamic::error::{AllocError, FreeError, NewError};
use crate::dynamic::hints::Run;
use crate::dynamic::lists::{FULL, Lists, NONE, is_small, list_of};
use crate::dynamic::policy::{Policy, SlotKey};
use crate::dynamic::records::Records;
use crate::dynamic::search::takes_contig;
use crate::dynamic::statistics::Totals;

use core::marker::PhantomData;

/// With fewer empty pages than this, balance work is wanted.
pub(super) const EMPTY_PAGES_LOW: u32 = 2;
/// Balance work keeps so many empty pages at hand.
pub(super) const EMPTY_PAGES_HIGH: u32 = 4;

/// An allocator of offsets that are valid in every slot.
///
/// It divides chunks, which it makes and destroys through its backing `B`, in the way of the
/// policy `P`. See [`crate::dynamic`] for what it is part of.
#[derive(Debug)]
pub struct Allocator<P: Policy, B: Backing> {
    pub(super) backing: B,
    pub(super) geometry: Geometry,
    pub(super) records: Records,
    pub(super) lists: Lists,
    /// Empty pages of all chunks but the isolated ones.
    pub(super) empty: u32,
    pub(super) balance_wanted: bool,
    /// A request for populated memory found none since the last balance.
    pub(super) populated_missing: bool,
    pub(super) totals: Totals,
    pub(super) counters: Counters,
    policy: PhantomData<P>,
}

impl<P: Policy, B: Backing> Allocator<P, B> {
    /// An allocator without chunks. Takes address space for the metadata of all chunks from the
    /// backing, and memory for one bit per chunk.
    ///
    /// # Errors
    /// See [`NewError`].
    pub fn new(mut backing: B, config: Config) -> Result<Self, NewError> {
        let geometry = Geometry::new(config)?;
        let records = Records::new(&geometry, &mut backing)?;
        Ok(Allocator {
            backing,
            geometry,
            records,
            lists: Lists::new::<P>(geometry.bits),
            empty: 0,
            balance_wanted: false,
            populated_missing: false,
            totals: Totals::default(),
            counters: Counters::default(),
            policy: PhantomData,
        })
    }

    /// Allocates `size` bytes in every slot, from 1 to [`crate::dynamic::OBJECT_BYTES_MAX`], at a
    /// multiple of `align`, a power of two up to [`crate::dynamic::ALIGN_MAX`].
    ///
    /// The content is whatever the memory held before. With [`Growth::PopulatedOnly`] nothing but
    /// the metadata is touched; in particular there is no system call. Afterwards see
    /// [`Allocator::balance_wanted`].
    ///
    /// # Errors
    /// See [`AllocError`]. Nothing changed, except that a chunk may have been made.
    pub fn alloc(
        &mut self,
        size: usize,
        align: usize,
        growth: Growth,
    ) -> Result<Offset, AllocError> {
        let request = Request::new(size, align)?;
        let Some((chunk, area)) = self.find(request, growth) else {
            return self.alloc_slow(request, growth);
        };
        self.commit(chunk, area)
    }

    /// Nothing fits: makes a chunk, or looks everywhere before it refuses.
    #[cold]
    pub(super) fn alloc_slow(
        &mut self,
        request: Request,
        growth: Growth,
    ) -> Result<Offset, AllocError> {
        let refusal = match growth {
            Growth::PopulatedOnly => {
                self.populated_missing = true;
                self.balance_wanted = true;
                AllocError::NotPopulated
            }
            // More than one, when the first is what the hidden head leaves of chunk 0.
            Growth::Allowed => loop {
                if let Err(refusal) = self.create_chunk() {
                    break refusal;
                }
                if let Some((chunk, area)) = self.find(request, growth) {
                    return self.commit(chunk, area);
                }
            },
        };
        if P::LAST_RESORT
            && let Some((chunk, area)) = self.find_exhaustively(request, growth)
        {
            return self.commit(chunk, area);
        }
        Err(refusal)
    }

    /// A chunk and a free area in it.
    #[inline]
    pub(super) fn find(&mut self, request: Request, growth: Growth) -> Option<(u32, Run)> {
        let whole = request.bits == self.geometry.bits;
        let first = if whole { self.lists.free() } else { list_of::<P>(request.bits) };
        let mut lists = self.lists.searched_from(first);
        while lists != 0 {
            let found = self.find_in_list(lists.trailing_zeros(), request, growth);
            if found.is_some() {
                return found;
            }
            lists &= lists - 1;
        }
        None
    }

    #[inline]
    fn find_in_list(&mut self, list: u32, request: Request, growth: Growth) -> Option<(u32, Run)> {
        let mut chunk = self.lists.head(list);
        let mut unfit = 0;
        while chunk != NONE {
            self.counters.chunks_tested += 1;
            let header = self.records.header(chunk);
            let (next, hints) = (header.next, &header.hints);
            // A shorter run may fit when the longest is badly aligned: not to look for it is what
            // keeps the test cheap.
            if let Some(area) = request.place_in(hints.contig_run()) {
                if growth == Growth::Allowed && takes_contig::<P>(hints, request) {
                    return Some((chunk, area));
                }
                let mut view = self.records.chunk(chunk);
                let found = view.find::<P>(request, area, growth, &mut self.counters);
                if let Some(area) = found {
                    return Some((chunk, area));
                }
            }
            if P::RELEGATE && is_small::<P>(list) {
                self.lists.move_to(&mut self.records, chunk, FULL);
                self.counters.relegations += 1;
            } else {
                unfit += 1;
                if unfit == P::UNFIT_MAX {
                    // The next request that comes here tests others.
                    self.lists.rotate(&mut self.records, list, unfit);
                    break;
                }
            }
            chunk = next;
        }
        None
    }

    /// A free area in any chunk, isolated ones included, found without hints but the length of
    /// the longest run.
    #[cold]
    fn find_exhaustively(&mut self, request: Request, growth: Growth) -> Option<(u32, Run)> {
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            self.counters.chunks_tested += 1;
            let view = self.records.chunk(chunk);
            if view.header.hints.contig >= request.bits
                && let Some(area) = view.find_exhaustively(request, growth, &mut self.counters)
            {
                return Some((chunk, area));
            }
            from = chunk + 1;
        }
        None
    }

    /// Turns a free area into an object, populated.
    #[inline]
    fn commit(&mut self, chunk: u32, area: Run) -> Result<Offset, AllocError> {
        self.occupy(chunk, area)?;
        self.totals.allocated(area.bits());
        Ok(self.geometry.offset(chunk, area.start))
    }

    /// Takes a free area and populates it.
    #[inline]
    pub(super) fn occupy(&mut self, chunk: u32, area: Run) -> Result<(), AllocError> {
        let mut view = self.records.chunk(chunk);
        let change = view.take::<P>(area, &mut self.counters);
        let missing = mask(pages_of(area)) & !view.header.populated;
        if view.header.isolated {
            view.header.isolated = false;
            self.empty += view.header.empty;
        } else {
            self.empty = self.empty.wrapping_add_signed(change);
        }
        self.relocate(chunk);
        if missing != 0 && !self.populate_area(chunk, missing) {
            self.give(chunk, area);
            return Err(AllocError::NoMemory);
        }
        if self.empty < EMPTY_PAGES_LOW {
            self.balance_wanted = true;
        }
        Ok(())
    }

    #[cold]
    fn populate_area(&mut self, chunk: u32, missing: u64) -> bool {
        ranges(missing).all(|range| {
            let pages = range.start as usize..range.end as usize;
            let populated = self.backing.populate(chunk as usize, pages);
            if populated {
                self.records.header_mut(chunk).populated |= mask(range.clone());
                self.totals.populated_pages += u64::from(range.end - range.start);
            }
            populated
        })
    }

    /// Frees the object at `offset`; returns its bytes, rounded up to [`GRAIN_BYTES`].
    ///
    /// Makes no system call. Afterwards see [`Allocator::balance_wanted`].
    ///
    /// # Errors
    /// See [`FreeError`]. Nothing changed.
    pub fn free(&mut self, offset: Offset) -> Result<usize, FreeError> {
        let (chunk, area) = self.object(offset)?;
        self.totals.freed();
        self.give(chunk, area);
        Ok(bytes_of(area.bits()))
    }

    /// Bytes of the object at `offset`, rounded up to [`GRAIN_BYTES`].
    ///
    /// # Errors
    /// See [`FreeError`].
    pub fn size(&mut self, offset: Offset) -> Result<usize, FreeError> {
        self.object(offset).map(|(_, area)| bytes_of(area.bits()))
    }

    #[inline]
    pub(super) fn object(&mut self, offset: Offset) -> Result<(u32, Run), FreeError> {
        let (chunk, byte) = self.geometry.split(offset).ok_or(FreeError::Foreign)?;
        if !self.records.is_live(chunk) {
            return Err(FreeError::Foreign);
        }
        if !byte.is_multiple_of(GRAIN_BYTES) {
            return Err(FreeError::NotAnObject);
        }
        let bit = (byte / GRAIN_BYTES) as u32;
        let view = self.records.chunk(chunk);
        match view.object_at(bit, &mut self.counters) {
            Some(area) => Ok((chunk, area)),
            None if view.was_bound(bit) => Err(FreeError::AlreadyFree),
            None => Err(FreeError::NotAnObject),
        }
    }

    /// Turns an object into free memory and finds out what that calls for.
    #[inline]
    pub(super) fn give(&mut self, chunk: u32, area: Run) {
        let mut view = self.records.chunk(chunk);
        let change = view.give::<P>(area, &mut self.counters);
        let (isolated, free_bits) = (view.header.isolated, view.header.free_bits);
        if !isolated {
            self.empty = self.empty.wrapping_add_signed(change);
        }
        self.relocate(chunk);
        if !isolated && free_bits == self.geometry.bits {
            self.balance_wanted |= self.has_two_free();
        } else if self.should_reclaim(chunk) {
            self.isolate(chunk);
            self.balance_wanted = true;
        }
    }

    /// Puts a chunk into the list that its key asks for.
    #[inline]
    pub(super) fn relocate(&mut self, chunk: u32) {
        let header = self.records.header(chunk);
        if !header.isolated {
            let list = self.list_for(chunk);
            self.lists.move_to(&mut self.records, chunk, list);
        }
    }

    /// The list that a chunk's key asks for.
    #[inline]
    pub(super) fn list_for(&self, chunk: u32) -> u32 {
        let header = self.records.header(chunk);
        let (contig, free_bits) = (header.hints.contig, header.free_bits);
        if contig == 0 || free_bits == 0 {
            return FULL;
        }
        let key = match P::SLOT_KEY {
            SlotKey::FreeBytes => free_bits,
            SlotKey::Contig => contig,
        };
        if key == self.geometry.bits { self.lists.free() } else { list_of::<P>(key) }
    }

    /// Makes a chunk without an object; it goes to the list of the free, unless part of it is
    /// hidden.
    pub(super) fn create_chunk(&mut self) -> Result<(), AllocError> {
        let chunk = self.records.first_vacant().ok_or(AllocError::Exhausted)?;
        if !self.backing.create_chunk(chunk as usize) {
            return Err(AllocError::NoMemory);
        }
        if !self.records.open(chunk, &mut self.backing) {
            self.backing.destroy_chunk(chunk as usize);
            return Err(AllocError::NoMemory);
        }
        let mut view = self.records.chunk(chunk);
        if chunk == 0 {
            view.hide_head::<P>(&self.geometry, &mut self.counters);
            self.totals.populated_pages += u64::from(view.header.populated.count_ones());
        }
        let list = self.list_for(chunk);
        self.lists.add_head(&mut self.records, chunk, list);
        self.counters.chunks_created += 1;
        self.totals.chunk_created();
        Ok(())
    }

    /// Whether [`Allocator::balance`] has something to do: call it when it suits, the sooner the
    /// less memory is held and the more is at hand for [`Growth::PopulatedOnly`].
    #[inline]
    #[must_use]
    pub fn balance_wanted(&self) -> bool {
        self.balance_wanted
    }

    /// The backing.
    #[must_use]
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// The backing, to change it.
    #[must_use]
    pub fn backing_mut(&mut self) -> &mut B {
        &mut self.backing
    }

    /// What it was made with.
    #[must_use]
    pub fn config(&self) -> Config {
        self.geometry.config
    }

    /// Work done since the allocator was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
