//! `calloc`, `aligned_alloc`, `realloc` and `malloc_usable_size`.

use core::ptr::{null_mut, with_exposed_provenance_mut};

use sheaves_slab::internal::by_id;
use sheaves_slab::internal::checking::{is_debug, is_exact, is_hardened};
use sheaves_slab::internal::sampling::{self, AllocRequest};
use sheaves_slab::internal::window::GRANULE_BYTES;
use sheaves_slab::internal::{CacheId, chunk, granule};
use sheaves_sys::stack::Frame;
use sheaves_sys::{errno, probe};

use crate::block::{self, Block};
use crate::classes::{self, MIDDLE_BYTES_MAX, QUANTUM_BYTES, SIZES, SMALL_BYTES_MAX};
use crate::entry::free;
use crate::malloc::malloc_from;
use crate::start::start;
use crate::{large, slow};

sheaves_percpu::with_frame! {
    /// Zeroed memory for `count` elements of `size` bytes; null and `ENOMEM` when the product
    /// overflows or memory is out.
    #[must_use]
    pub [] fn calloc(count: usize, size: usize) -> *mut u8 = calloc_from;

    /// A block of `size` bytes at a multiple of `align`; null and `EINVAL` when `align` is not a
    /// power of two, null and `ENOMEM` when memory is out. Alignments up to 1 GiB are tested.
    #[must_use]
    pub [] fn aligned_alloc(align: usize, size: usize) -> *mut u8 = aligned_alloc_from;

    /// Resizes a block; its contents up to the smaller of the two sizes stay. With a null `block`
    /// it is [`crate::malloc()`]. On failure it returns null, sets `ENOMEM` and keeps the old
    /// block. Size 0 gives a unique block of the smallest class.
    ///
    /// # Safety
    /// `block` is null or came from this heap; after success the old address is not used any more.
    #[must_use]
    pub [unsafe] fn realloc(block: *mut u8, size: usize) -> *mut u8 = realloc_from;
}

extern "C" fn calloc_from(count: usize, size: usize, frame: Frame) -> *mut u8 {
    match count.checked_mul(size) {
        Some(bytes) if bytes <= SMALL_BYTES_MAX => {
            let block = malloc_from(bytes, frame);
            if !block.is_null() {
                // SAFETY: the block has at least `bytes` bytes, and no other thread knows it.
                unsafe { block.write_bytes(0, bytes) };
            }
            block
        }
        Some(bytes) => slow::alloc_zeroed(bytes, frame),
        None => out_of_memory(),
    }
}

/// [`aligned_alloc()`] on behalf of the function that the frame is of.
#[doc(hidden)]
pub extern "C" fn aligned_alloc_from(align: usize, size: usize, frame: Frame) -> *mut u8 {
    if !align.is_power_of_two() {
        errno::set(errno::EINVAL);
        return null_mut();
    }
    if align <= QUANTUM_BYTES {
        return malloc_from(size, frame);
    }
    slow::alloc(size, align, frame)
}

/// # Safety
/// As [`realloc`].
unsafe extern "C" fn realloc_from(block: *mut u8, size: usize, frame: Frame) -> *mut u8 {
    let address = block.expose_provenance();
    if let Some(usable) = small_bytes_of(address)
        && size <= SMALL_BYTES_MAX
    {
        if stays(usable, size) {
            return block;
        }
        let new = malloc_from(size, frame);
        if !new.is_null() {
            // SAFETY: both blocks have at least that many bytes.
            unsafe { copy(block, new, usable.min(size)) };
            // SAFETY: the caller no longer uses the old block.
            unsafe { free(block) };
        }
        return new;
    }
    if size > MIDDLE_BYTES_MAX && large::stays(address, size) {
        probe::large_resize(address, address, size);
        return block;
    }
    // SAFETY: the same contract.
    unsafe { realloc_any(block, size, frame) }
}

/// Copies to another block. By `memmove`: the preload object names no versions of symbols, so the
/// loader gives it the first `memcpy` of glibc, which uses no wide registers.
///
/// # Safety
/// Both blocks have that many bytes.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's contract.
    unsafe { core::ptr::copy(from, to, bytes) };
}

/// Usable bytes of a block that the fast paths serve; `None` for others, and in a hardened process.
#[inline]
fn small_bytes_of(address: usize) -> Option<usize> {
    let id = CacheId::of_size_class_entry(granule::entry_of(address)? as u16)?;
    Some(SIZES[id.class()] as usize).filter(|bytes| *bytes <= SMALL_BYTES_MAX)
}

/// True if a block of that many usable bytes serves a new size: shrinking to less than half is
/// worth a copy, which frees the memory for other blocks. There is no smaller class than the first.
#[inline]
fn stays(usable: usize, size: usize) -> bool {
    size <= usable && (size > usable / 2 || usable <= QUANTUM_BYTES)
}

/// # Safety
/// As [`realloc`].
#[inline(never)]
unsafe fn realloc_any(block: *mut u8, size: usize, frame: Frame) -> *mut u8 {
    if block.is_null() {
        return malloc_from(size, frame);
    }
    if size > slow::BYTES_MAX || !start() {
        return out_of_memory();
    }
    let address = block.expose_provenance();
    if !is_debug()
        && let Some(resized) = resize_in_place(address, size, frame)
    {
        return with_exposed_provenance_mut(resized);
    }
    let old = slow::usable(address);
    let new = alloc_to_move(old, size, frame);
    if new.is_null()
        && !is_debug()
        && let Some(resized) = resize_in_place(address, size, frame)
    {
        // The attempt has returned what was idle, which is enough without the old block beside it.
        return with_exposed_provenance_mut(resized);
    }
    if !new.is_null() {
        // SAFETY: both blocks have at least that many bytes.
        unsafe { copy(block, new, old.min(size)) };
        if is_debug() {
            // SAFETY: the caller no longer uses the old block.
            unsafe { slow::free_from(block, frame) };
        } else {
            // SAFETY: as above.
            unsafe { free(block) };
        }
    }
    new
}

/// A block for the contents of one of `old` bytes. One that grows above [`GRANULE_BYTES`] may grow
/// again: half as much room as it had saves copies, and what is not used is never touched.
fn alloc_to_move(old: usize, size: usize, frame: Frame) -> *mut u8 {
    let request = AllocRequest { bytes: size, align: QUANTUM_BYTES, frame };
    let may_grow_again = size > old.max(GRANULE_BYTES) && !is_hardened();
    let block = if !may_grow_again {
        0
    } else if size > MIDDLE_BYTES_MAX {
        large::alloc_to_grow(size, &request)
    } else {
        let roomy = (old + old / 2).clamp(size, MIDDLE_BYTES_MAX);
        block::alloc(roomy, QUANTUM_BYTES, &request).0
    };
    match block {
        0 => malloc_from(size, frame),
        block => with_exposed_provenance_mut(block),
    }
}

/// The block's address after a resize without a copy, `None` when a copy is needed.
fn resize_in_place(address: usize, size: usize, frame: Frame) -> Option<usize> {
    // A mapping that stays above this size stays a mapping. It is looked up once.
    if size > classes::class_bytes_max() && !block::is_in_slab(address) {
        let request = AllocRequest { bytes: size, align: QUANTUM_BYTES, frame };
        if let Some(moved) = large::resize(address, size, &request) {
            chunk::do_due_after_alloc();
            let moved = Some(moved).filter(|moved| *moved != 0);
            return moved.inspect(|moved| probe::large_resize(address, *moved, size));
        }
    }
    match block::look_up(address) {
        Some(Block::Object { class }) => {
            if is_hardened() {
                by_id::check_allocated(CacheId::of_class(class), address);
            }
            if is_exact() {
                return None;
            }
            let usable = classes::usable_bytes(class);
            let has_class = || classes::of_request(size, QUANTUM_BYTES) == Some(class);
            let serves = stays(usable, size) || is_hardened() && has_class();
            if !serves {
                return None;
            }
            if granule::is_watched(address) {
                sampling::resize(address, size);
            }
            let is_shortened =
                classes::is_alone(class) && by_id::request_of_alone(address, size) > size;
            if is_shortened && usable - size >= large::TAIL_BYTES_MIN {
                // Or the kernel would fill it again.
                granule::Granule::of(address).into_iter().for_each(chunk::note_holes);
                large::discard_tail(address + size, address + usable);
            }
            Some(address)
        }
        Some(Block::Large { .. }) => None,
        // Its end is to stay beside an inaccessible page.
        Some(Block::Trap { bytes }) => (size == bytes).then_some(address),
        None => block::foreign(address, "realloc"),
    }
}

/// Bytes that the caller may use in a block: at least the size that was requested. 0 for null.
///
/// # Safety
/// `block` is null or came from this heap and was not freed.
#[inline]
#[must_use]
pub unsafe fn usable_size(block: *const u8) -> usize {
    let address = block.expose_provenance();
    if let (Some(entry), false) = (granule::entry_of(address), is_hardened())
        && let Some(id) = CacheId::of_size_class_entry(entry as u16)
    {
        return SIZES[id.class()] as usize;
    }
    usable_size_slow(address)
}

/// Bytes that a block for a request of `bytes` at a multiple of `align` has at least, as
/// [`usable_size`] of one that is no guarded sample; 0 if no block can have as many. A block with a
/// mapping of its own may have up to a quarter more.
#[must_use]
pub fn usable_size_of(bytes: usize, align: usize) -> usize {
    if bytes > isize::MAX as usize {
        return 0;
    }
    if !start() || is_exact() {
        return bytes;
    }
    match classes::of_request(bytes, align.max(QUANTUM_BYTES)) {
        Some(class) => classes::usable_bytes(class),
        None if is_hardened() => large::hardened::rounded(bytes, align),
        None => bytes.next_multiple_of(sheaves_sys::map::page_bytes()),
    }
}

#[cold]
#[inline(never)]
fn usable_size_slow(address: usize) -> usize {
    // At level 1 most are of a class.
    if !is_exact()
        && let Some(id) = by_id::size_class_of(address)
    {
        return classes::usable_bytes(id.class());
    }
    if address == 0 || !start() { 0 } else { slow::usable(address) }
}

#[cold]
fn out_of_memory() -> *mut u8 {
    errno::set(errno::ENOMEM);
    null_mut()
}
