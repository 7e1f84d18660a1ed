//! The address window: addresses of the heap and its metadata.
//!
//! One window holds seven regions, each growing upwards from its start:
//!
//! | region | one entry per | bytes per entry | contents |
//! |---|---|---|---|
//! | owners | granule (64 KiB) of the window | 2 | owner of the granule: [`super::granule`] |
//! | heap | | | the objects: up to 4 TiB |
//! | chunks | chunk (2 MiB) of the heap | 24 | free granules of the chunk: [`super::chunk`] |
//! | slabs | granule of the heap | 640 | out-of-line slab header: [`super::slab`] |
//! | sheaves | sheaf | 1024 | `pool` |
//! | returned | sheaf | 1 bit | whether the pool has returned its page |
//! | descriptors | named cache | 1536 | `descriptor` |
//!
//! The owners come first. So the window's address alone leads from any address to its owner, by a
//! subtraction, a shift and a load. The heap is right behind them: so the entries that are needed
//! are near the start of the map, of which all up to the last one is mapped.
//!
//! The window is at a random place that the kernel does not use by default. A region grows by
//! mapping exactly where it ends (`MAP_FIXED_NOREPLACE`), so that a limit on memory of any kind
//! counts nothing but what is mapped. Where an emulator does not honour exact addresses, or where
//! something else has the whole address space, the window is a reservation, with a heap of 4 TiB
//! or, by halves, less.
//!
//! Between two regions, and after what a region has mapped, there is unmapped address space. So a
//! write that runs past the end of objects, or before the first one, does not reach the
//! bookkeeping.
//!
//! Another mapping may be where a region needs to grow. Heap, headers and sheaves skip it. The
//! other regions must be contiguous: the heap ends where the map of owners or chunks cannot grow.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sheaves_percpu::internal::Sheaf;
use sheaves_sys::map::{self, Exactly};
use sheaves_sys::space::{ATTEMPTS, Area, Places};

/// Bytes of a granule, the unit of slabs and runs.
pub const GRANULE_BYTES: usize = 64 << 10;
/// Bytes of a chunk, the unit of the heap.
pub const CHUNK_BYTES: usize = 2 << 20;
/// Granules of a chunk.
pub const CHUNK_GRANULES: usize = CHUNK_BYTES / GRANULE_BYTES;

/// Bytes of a chunk's record and of a slab's header; what they are of has the same size.
pub(crate) const CHUNK_RECORD_BYTES: usize = 24;
pub(crate) const SLAB_HEADER_BYTES: usize = 640;
/// The bytes of all headers of a chunk.
pub(crate) const CHUNK_HEADER_BYTES: usize = CHUNK_GRANULES * SLAB_HEADER_BYTES;
/// The most bytes of all descriptors.
pub(crate) const DESCRIPTORS_BYTES: usize = 2 << 20;

/// The most bytes of the heap.
pub const HEAP_BYTES_MAX: usize = 4 << 40;
const HEAP_BYTES_MIN: usize = 4 << 20;
/// Sheaves are numbered by 24 bits, see `protocol::stack`.
pub(crate) const SHEAVES_MAX: usize = 1 << 24;
/// The heap's first bytes, which are mapped when the window is started.
const FIRST_BYTES: usize = 4 * GRANULE_BYTES;

/// Least growth of a region in bytes where memory is not short, except of the heap.
pub(crate) const STEP_BYTES: usize = 64 << 10;
/// Unmapped bytes after each region at least.
const GUARD_BYTES: usize = CHUNK_BYTES;
/// The most unmapped bytes more before the heap, at random. A GiB takes 32 KiB of the owner map.
const GAP_BYTES_MAX: usize = 1 << 30;
/// The most bytes of the window before the heap.
const BEFORE_BYTES_MAX: usize = 2 * GAP_BYTES_MAX;

/// One growing part of the window.
#[derive(Debug)]
pub(crate) struct Region {
    /// First address; written once by [`start`]. Before, it is too far from every user address:
    /// none is within the heap, whether a thread reads the old or new end of it.
    base: AtomicUsize,
    /// Bytes that are mapped or skipped, from `base`; grows under the lock of the region's owner.
    mapped: AtomicUsize,
    /// How many of them end with those that were skipped last.
    skipped: AtomicUsize,
    /// The most bytes that it may grow to; written once by [`start`].
    limit: AtomicUsize,
}

impl Region {
    const fn new() -> Region {
        let [mapped, skipped, limit] = [const { AtomicUsize::new(0) }; 3];
        Region { base: AtomicUsize::new(1 << 63), mapped, skipped, limit }
    }

    /// First address.
    #[inline]
    pub(crate) fn base(&self) -> usize {
        // Relaxed: written once, before anything that depends on it is published.
        self.base.load(Ordering::Relaxed)
    }

    /// The most bytes that it may grow to.
    pub(crate) fn limit(&self) -> usize {
        // Relaxed: written once, as the base.
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes from the base that are mapped or skipped.
    pub(crate) fn mapped(&self) -> usize {
        // Relaxed, here and below: changes under the lock of the region's owner.
        self.mapped.load(Ordering::Relaxed)
    }

    /// Maps the region up to at least `bytes`. `Occupied` when another mapping is in the way,
    /// `Refused` when the region's limit or memory is exceeded.
    ///
    /// Callers serialise growth of one region by a lock of their own.
    pub(crate) fn grow_to(&self, bytes: usize) -> Exactly {
        let (mapped, limit) = (self.mapped(), self.limit());
        if bytes <= mapped {
            return Exactly::Mapped;
        }
        if bytes > limit {
            return Exactly::Refused;
        }
        // Growing by an eighth keeps the number of system calls logarithmic.
        let wish = bytes.max(mapped + mapped / 8).next_multiple_of(STEP_BYTES).min(limit);
        let least = bytes.next_multiple_of(map::page_bytes()).min(limit);
        self.grow_by(wish - mapped, least - mapped)
    }

    /// Maps `wish` bytes more, or at least `least` of them, both whole pages. As there.
    pub(crate) fn grow_by(&self, wish: usize, least: usize) -> Exactly {
        if self.mapped() + least > self.limit() {
            return Exactly::Refused;
        }
        match self.lengthen(wish.min(self.limit() - self.mapped())) {
            Exactly::Mapped => Exactly::Mapped,
            _ => self.lengthen(least),
        }
    }

    fn lengthen(&self, more: usize) -> Exactly {
        let mapped = self.mapped();
        let end = self.base() + mapped;
        // Relaxed, both: as in `mapped`.
        let outcome = if RESERVED.load(Ordering::Relaxed) {
            // SAFETY: the range is inside the reservation made by `start`.
            match unsafe { map::commit(end, more) } {
                true => Exactly::Mapped,
                false => Exactly::Refused,
            }
        } else {
            match map::exactly(end, more) {
                // The process may have as many mappings as it may have.
                // SAFETY: what is before the end is a mapping of this region.
                Exactly::Refused if self.is_joined() && unsafe { map::extend(end, more) } => {
                    Exactly::Mapped
                }
                outcome => outcome,
            }
        };
        if outcome == Exactly::Mapped {
            // Relaxed: as in `mapped`.
            self.mapped.store(mapped + more, Ordering::Relaxed);
        }
        outcome
    }

    /// True when the bytes before its end are mapped.
    fn is_joined(&self) -> bool {
        // Relaxed: as in `mapped`.
        self.mapped() > self.skipped.load(Ordering::Relaxed)
    }

    /// Undoes growth above `bytes`, which nothing uses yet. As in [`Region::grow_to`].
    pub(crate) fn shrink_to(&self, bytes: usize) {
        let (base, mapped) = (self.base(), self.mapped());
        if mapped <= bytes {
            return;
        }
        // Relaxed: written once, before the regions are used.
        let is_unmapped = if RESERVED.load(Ordering::Relaxed) {
            // SAFETY: mapped by `grow_to` and not used.
            unsafe { map::uncommit(base + bytes, mapped - bytes) };
            true
        } else {
            // SAFETY: as above.
            unsafe { map::unmap(base + bytes, mapped - bytes) }
        };
        if is_unmapped {
            // Relaxed: as in `mapped`.
            self.mapped.store(bytes, Ordering::Relaxed);
        }
    }

    /// Continues growth from the step that contains `bytes`. What is below and not mapped is never
    /// used. Callers serialise this with [`Region::grow_to`].
    pub(crate) fn skip_to(&self, bytes: usize) {
        let bytes = bytes / STEP_BYTES * STEP_BYTES;
        if bytes > self.mapped() {
            // Relaxed, both: as in `mapped`.
            self.mapped.store(bytes, Ordering::Relaxed);
            self.skipped.store(bytes, Ordering::Relaxed);
        }
    }
}

#[unsafe(link_section = ".sheaves_load")]
pub(crate) static OWNERS: Region = Region::new();
pub(crate) static HEAP: Region = Region::new();
pub(crate) static CHUNKS: Region = Region::new();
pub(crate) static SLABS: Region = Region::new();
pub(crate) static SHEAVES: Region = Region::new();
pub(crate) static RETURNED: Region = Region::new();
pub(crate) static DESCRIPTORS: Region = Region::new();

/// All regions, in the order of their addresses.
static REGIONS: [&Region; 7] = [&OWNERS, &HEAP, &CHUNKS, &SLABS, &SHEAVES, &RETURNED, &DESCRIPTORS];

/// True when the window is a reservation; written by [`start`], before the regions are used.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// Bytes of each of [`REGIONS`] for a heap of `heap` bytes.
const fn sizes(heap: usize) -> [usize; REGIONS.len()] {
    let owners = (heap + BEFORE_BYTES_MAX) / GRANULE_BYTES * 2;
    let chunks = heap / CHUNK_BYTES * CHUNK_RECORD_BYTES;
    let slabs = heap / CHUNK_BYTES * CHUNK_HEADER_BYTES;
    let mut sheaves = heap / 64;
    if sheaves > SHEAVES_MAX * Sheaf::BYTES {
        sheaves = SHEAVES_MAX * Sheaf::BYTES;
    }
    let returned = sheaves / Sheaf::BYTES / 8;
    let mut sizes = [owners, heap, chunks, slabs, sheaves, returned, DESCRIPTORS_BYTES];
    let mut index = 0;
    while index < sizes.len() {
        sizes[index] = sizes[index].next_multiple_of(STEP_BYTES);
        index += 1;
    }
    sizes
}

/// The most random bytes between the heap and what follows, for a heap of `heap` bytes.
const fn gap_behind(heap: usize) -> usize {
    heap / 8
}

/// Bytes of all regions and of what is between them, without random gaps.
fn total(sizes: [usize; REGIONS.len()]) -> usize {
    sizes.iter().map(|bytes| bytes + GUARD_BYTES).sum::<usize>() + CHUNK_BYTES
}

/// Places the regions from `base` on, a multiple of [`CHUNK_BYTES`], with [`GUARD_BYTES`] between
/// them, and with more bytes before and behind the heap.
fn place(sizes: [usize; REGIONS.len()], mut base: usize, [before, behind]: [usize; 2]) {
    debug_assert!(base.is_multiple_of(CHUNK_BYTES), "granules are counted and aligned from there");
    for (region, bytes) in REGIONS.into_iter().zip(sizes) {
        if core::ptr::eq(region, &raw const HEAP) {
            base = (base + before).next_multiple_of(CHUNK_BYTES);
        } else if core::ptr::eq(region, &raw const CHUNKS) {
            base += behind;
        }
        // Relaxed, all: single-threaded, under the lock of the caches' registry.
        region.base.store(base, Ordering::Relaxed);
        region.limit.store(bytes, Ordering::Relaxed);
        region.mapped.store(0, Ordering::Relaxed);
        base += bytes + GUARD_BYTES;
    }
}

/// Places the window and maps the beginnings of regions. False, with nothing mapped, when memory is
/// out; may be tried again. Called under the lock of the caches' registry.
pub(crate) fn start() -> bool {
    let mut places = Places::new(Area::Windows);
    for range in Area::Windows.ranges() {
        let all = |heap| total(sizes(heap)) + GAP_BYTES_MAX + gap_behind(heap);
        let mut heap = HEAP_BYTES_MAX;
        // Half of the range is for other places.
        while heap > HEAP_BYTES_MIN && all(heap) > range.len() / 2 {
            heap /= 2;
        }
        for _ in 0..ATTEMPTS {
            let base = range.start + places.next(range.len() - all(heap));
            let gaps = [GAP_BYTES_MAX, gap_behind(heap)].map(|most| places.next(most));
            place(sizes(heap), base, gaps);
            match begin() {
                Exactly::Mapped => return true,
                Exactly::Occupied => {}
                Exactly::Refused => return false,
            }
        }
    }
    start_reserved()
}

fn start_reserved() -> bool {
    let mut heap = HEAP_BYTES_MAX;
    while heap >= HEAP_BYTES_MIN {
        let bytes = total(sizes(heap)) + CHUNK_BYTES;
        if let Some(address) = map::reserve(bytes) {
            // Relaxed, both: single-threaded, under the lock of the caches' registry.
            RESERVED.store(true, Ordering::Relaxed);
            place(sizes(heap), address.next_multiple_of(CHUNK_BYTES), [0, 0]);
            let is_begun = begin() == Exactly::Mapped;
            if !is_begun {
                RESERVED.store(false, Ordering::Relaxed);
                // SAFETY: reserved just now, and not used.
                unsafe { map::unmap(address, bytes) };
            }
            return is_begun;
        }
        heap /= 2;
    }
    false
}

/// Maps what the first object needs of the regions: in steps, or where memory is short, page by
/// page. Nothing is mapped if that fails: `Refused` when memory is out, `Occupied` when the window
/// cannot be here.
fn begin() -> Exactly {
    let owners = ((HEAP.base() - OWNERS.base()) / GRANULE_BYTES + CHUNK_GRANULES) * 2;
    let mut outcome = Exactly::Refused;
    for (step, heap) in [(STEP_BYTES, FIRST_BYTES), (map::page_bytes(), GRANULE_BYTES)] {
        let beginnings = [
            (&OWNERS, owners),
            (&CHUNKS, CHUNK_RECORD_BYTES),
            (&SLABS, CHUNK_HEADER_BYTES),
            (&SHEAVES, 2 * Sheaf::BYTES),
            (&HEAP, heap),
        ];
        let mut outcomes = beginnings.into_iter().map(|(region, bytes)| {
            let bytes = bytes.next_multiple_of(step);
            region.grow_by(bytes, bytes)
        });
        outcome = outcomes.find(|it| *it != Exactly::Mapped).unwrap_or(Exactly::Mapped);
        if outcome == Exactly::Mapped {
            break;
        }
        if OWNERS.mapped() == 0 && can_map(owners.next_multiple_of(step)) {
            outcome = Exactly::Occupied;
        }
        // Half way.
        REGIONS.iter().for_each(|region| region.shrink_to(0));
    }
    outcome
}

/// True when the kernel maps as much elsewhere.
fn can_map(bytes: usize) -> bool {
    let address = map::anywhere(bytes);
    // SAFETY: mapped just now.
    address.is_some_and(|address| unsafe { map::unmap(address, bytes) })
}

const _: () = {
    let owners = sizes(HEAP_BYTES_MAX)[0];
    assert!(owners + GUARD_BYTES + GAP_BYTES_MAX + CHUNK_BYTES <= BEFORE_BYTES_MAX);
    // Granules have numbers of 32 bits, counted from the window's start.
    assert!((HEAP_BYTES_MAX + BEFORE_BYTES_MAX) / GRANULE_BYTES < u32::MAX as usize);
    assert!(sizes(HEAP_BYTES_MAX)[4] == SHEAVES_MAX * Sheaf::BYTES);
};

#[cfg(test)]
#[path = "../../tests/unit/window.rs"]
mod tests;
