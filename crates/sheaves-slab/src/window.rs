//! The address window: addresses of the heap and its metadata.
//!
//! One window of 1 TiB holds five regions, each growing upwards from its start:
//!
//! | region | one entry per | bytes per entry | contents |
//! |---|---|---|---|
//! | owners | granule (64 KiB) of the window | 2 | owner of the granule: [`crate::granule`] |
//! | chunks | chunk (2 MiB) of the heap | 16 | free granules of the chunk: [`crate::chunk`] |
//! | slabs | granule of the heap | 640 | out-of-line slab header: [`crate::slab`] |
//! | sheaves | sheaf | 1024 | `pool` |
//! | heap | | | the objects |
//!
//! The owners come first. So the window's address alone leads from any address to its owner, by a
//! subtraction, a shift and a load.
//!
//! The window is at a random place that the kernel does not use by default. A region grows by
//! mapping exactly where it ends (`MAP_FIXED_NOREPLACE`). Where an emulator or an old kernel does
//! not honour exact addresses, the window is a reservation, if necessary with a smaller heap.
//!
//! Between two regions, and after what a region has mapped, there is unmapped address space. So a
//! write that runs past the end of objects, or before the first one, does not reach the
//! bookkeeping.
//!
//! Another mapping may be where a region needs to grow. Heap, headers and sheaves skip it. The maps
//! of owners and chunks must be contiguous: the heap ends where one of them cannot grow.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sheaves_sys::map::{self, Exactly};

/// Bytes of a granule, the unit of slabs and runs.
pub const GRANULE_BYTES: usize = 64 << 10;
/// Bytes of a chunk, the unit in which the heap grows.
pub const CHUNK_BYTES: usize = 2 << 20;
/// Granules of a chunk.
pub const CHUNK_GRANULES: usize = CHUNK_BYTES / GRANULE_BYTES;

pub(crate) const SLAB_HEADER_BYTES: usize = 640;

/// Bytes of the window.
pub const WINDOW_BYTES: usize = 1 << 40;

/// Least growth of a region in bytes, except of the heap, which grows by chunks.
pub(crate) const STEP_BYTES: usize = 64 << 10;

const HEAP_BYTES_MAX: usize = 1 << 39;
const HEAP_BYTES_MIN: usize = 64 << 20;
/// Sheaves are numbered by 24 bits, see `protocol::stack`.
const SHEAVES_BYTES_MAX: usize = 1 << 34;
/// Random windows are here: above the addresses of programs linked at fixed addresses, and far
/// below the addresses that the kernel chooses today.
const WINDOWS_START: usize = 0x1000_0000_0000;
const WINDOWS_BYTES: usize = 0x1800_0000_0000;
const ATTEMPTS: u32 = 16;

/// One growing part of the window.
#[derive(Debug)]
pub(crate) struct Region {
    /// First address; written once by [`start`].
    base: AtomicUsize,
    /// Bytes that are mapped, from `base`; grows under the lock of the region's owner.
    mapped: AtomicUsize,
    /// The most bytes that it may grow to; written once by [`start`].
    limit: AtomicUsize,
    /// Least growth in bytes.
    step: usize,
}

impl Region {
    const fn new(step: usize) -> Region {
        Region {
            base: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            step,
        }
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

    /// Maps the region up to at least `bytes`. `Occupied` when another mapping is in the way,
    /// `Refused` when the region's limit or memory is exceeded.
    ///
    /// Callers serialise growth of one region by a lock of their own.
    pub(crate) fn grow_to(&self, bytes: usize) -> Exactly {
        // Relaxed, all: guarded by the caller's lock, see above.
        let (mapped, limit) = (self.mapped.load(Ordering::Relaxed), self.limit());
        if bytes <= mapped {
            return Exactly::Mapped;
        }
        if bytes > limit {
            return Exactly::Refused;
        }
        // Growing by an eighth keeps the number of system calls logarithmic.
        let wish = bytes.max(mapped + mapped / 8).next_multiple_of(self.step).min(limit);
        let least = bytes.next_multiple_of(self.step).min(limit);
        let mut end = Exactly::Refused;
        for target in [wish, least] {
            end = extend(self.base() + mapped, target - mapped);
            if end == Exactly::Mapped {
                self.mapped.store(target, Ordering::Relaxed);
                break;
            }
        }
        end
    }

    /// Continues growth from the step that contains `bytes`. What is below and not mapped is never
    /// used. Callers serialise this with [`Region::grow_to`].
    pub(crate) fn skip_to(&self, bytes: usize) {
        let bytes = bytes / self.step * self.step;
        // Relaxed: guarded by the caller's lock.
        self.mapped.fetch_max(bytes, Ordering::Relaxed);
    }
}

pub(crate) static OWNERS: Region = Region::new(STEP_BYTES);
pub(crate) static CHUNKS: Region = Region::new(STEP_BYTES);
pub(crate) static SLABS: Region = Region::new(STEP_BYTES);
pub(crate) static SHEAVES: Region = Region::new(STEP_BYTES);
pub(crate) static HEAP: Region = Region::new(CHUNK_BYTES);

/// True when the window is a reservation; written once by [`start`].
static RESERVED: AtomicBool = AtomicBool::new(false);

fn extend(address: usize, bytes: usize) -> Exactly {
    // Relaxed: written once, before the regions are used.
    if !RESERVED.load(Ordering::Relaxed) {
        return map::exactly(address, bytes);
    }
    // SAFETY: the range is inside the reservation made by `start`.
    if unsafe { map::commit(address, bytes) } { Exactly::Mapped } else { Exactly::Refused }
}

/// All regions, in the order of their addresses.
static REGIONS: [&Region; 5] = [&OWNERS, &CHUNKS, &SLABS, &SHEAVES, &HEAP];

/// Unmapped bytes after each region at least.
const GUARD_BYTES: usize = CHUNK_BYTES;

/// Bytes of all regions and of what is between them.
fn total(sizes: [usize; 5]) -> usize {
    sizes.iter().map(|bytes| bytes + GUARD_BYTES).sum()
}

/// Bytes of each of [`REGIONS`] for a heap of `heap` bytes.
fn sizes(heap: usize) -> [usize; 5] {
    let owners = WINDOW_BYTES / GRANULE_BYTES * 2;
    let chunks = (heap / CHUNK_BYTES * 16).next_multiple_of(CHUNK_BYTES);
    let slabs = (heap / GRANULE_BYTES * SLAB_HEADER_BYTES).next_multiple_of(CHUNK_BYTES);
    let sheaves = (heap / 64).clamp(CHUNK_BYTES, SHEAVES_BYTES_MAX);
    [owners, chunks, slabs, sheaves, heap]
}

/// Places the regions from `base` on, a multiple of the chunk size, with [`GUARD_BYTES`] between
/// them, and `gap` bytes more before the heap.
fn place(sizes: [usize; 5], mut base: usize, gap: usize) {
    for (region, bytes) in REGIONS.into_iter().zip(sizes) {
        base += if core::ptr::eq(region, &raw const HEAP) { gap } else { 0 };
        // Relaxed: single-threaded, under the lock of the caches' registry.
        region.base.store(base, Ordering::Relaxed);
        region.limit.store(bytes, Ordering::Relaxed);
        region.mapped.store(0, Ordering::Relaxed);
        base += bytes + GUARD_BYTES;
    }
}

/// Places the window and maps the beginning of every region. False when address space is out; may
/// be tried again. Called under the lock of the caches' registry.
pub(crate) fn start() -> bool {
    let sizes = sizes(HEAP_BYTES_MAX);
    let mut seed = sheaves_sys::process::random_seed() | 1;
    let mut random_chunks = |below: usize| {
        // Steps of a 64-bit linear congruential generator (Knuth's MMIX constants).
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 24).unwrap_or(0) % (below / CHUNK_BYTES) * CHUNK_BYTES
    };
    for _ in 0..ATTEMPTS {
        let base = WINDOWS_START + random_chunks(WINDOWS_BYTES - WINDOW_BYTES);
        let gap = random_chunks(WINDOW_BYTES - total(sizes));
        place(sizes, base, gap);
        if map_beginnings() {
            return true;
        }
        unmap_all();
    }
    start_reserved()
}

fn start_reserved() -> bool {
    let mut heap = HEAP_BYTES_MAX;
    while heap >= HEAP_BYTES_MIN {
        let sizes = sizes(heap);
        if let Some(address) = map::reserve(total(sizes) + CHUNK_BYTES) {
            // Relaxed: single-threaded, under the lock of the caches' registry.
            RESERVED.store(true, Ordering::Relaxed);
            place(sizes, address.next_multiple_of(CHUNK_BYTES), 0);
            return map_beginnings();
        }
        heap /= 2;
    }
    false
}

/// Maps the beginning of every region.
fn map_beginnings() -> bool {
    REGIONS.iter().all(|region| region.grow_to(1) == Exactly::Mapped)
}

/// Unmaps the regions after an attempt that failed half way.
fn unmap_all() {
    for region in REGIONS {
        // Relaxed: single-threaded, under the lock of the caches' registry.
        let mapped = region.mapped.swap(0, Ordering::Relaxed);
        if mapped > 0 {
            // SAFETY: mapped just now by `grow_to`, not used yet.
            unsafe { map::unmap(region.base(), mapped) };
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/window.rs"]
mod tests;
