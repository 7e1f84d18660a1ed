//! Caches of which callers know the number: malloc. Creates them; their fast and slow paths.

use core::alloc::Layout;

use sheaves_percpu::Access;
use sheaves_percpu::internal as percpu;
use sheaves_sys::stack::Frame;

pub use crate::hardened::{check_allocated, check_freed, is_freed};
use crate::moves::flush;
use crate::moves::registry::{self, CacheError};
use crate::moves::tags::Roles;
use crate::parts::shape::{CANARY_BYTES, Shape};
use crate::records::profile::{self, AllocRequest};
use crate::records::trap;
use crate::returning::surplus;
use crate::space::cache_id::{CLASSES_MAX, CacheId};
use crate::space::granule::{self, Granule};
use crate::space::window::GRANULE_BYTES;
use crate::space::{checking, slab};
use crate::{fork, hardened, layer, slow};

/// Before a shape is computed, which depends on the mode of the process.
pub(crate) fn start() -> Result<(), CacheError> {
    fork::announce();
    layer::register();
    if registry::start() { Ok(()) } else { Err(CacheError::OutOfMemory) }
}

/// Creates the cache of a malloc size class, whose objects are at multiples of `align` bytes.
/// An object of 64 KiB to 1 MiB is alone in its slab. If its size is a power of two, it is
/// aligned to its size.
///
/// # Errors
/// As [`CacheError`]; `TooMany` when the class exists or is not below [`CLASSES_MAX`].
pub fn create_class(
    class: usize,
    name: &str,
    size: usize,
    align: usize,
) -> Result<CacheId, CacheError> {
    start()?;
    // In a hardened process the size of a class includes the canary.
    let usable = size - if checking::is_hardened() { CANARY_BYTES } else { 0 };
    let layout = Layout::from_size_align(usable, align).map_err(|_| CacheError::Layout)?;
    let shape = match size {
        GRANULE_BYTES.. => Shape::alone(usable),
        _ => Shape::new(layout).ok_or(CacheError::Layout)?,
    };
    registry::create(name, shape, class + 1..CLASSES_MAX.min(class + 1) + 1)
}

/// Creates the cache of a class whose objects are 16 bytes apart and can be neither read nor
/// written: for blocks of size 0 in a hardened process.
///
/// # Errors
/// As [`create_class`].
pub fn create_unreadable_class(class: usize, name: &str) -> Result<CacheId, CacheError> {
    start()?;
    let shape = Shape::new(Layout::new::<u64>()).ok_or(CacheError::Layout)?;
    let shape = Shape { unreadable: true, quick_bytes: 0, ..shape };
    registry::create(name, shape, class + 1..CLASSES_MAX.min(class + 1) + 1)
}

/// Allocates an object; 0 when memory is out.
#[inline(always)]
#[must_use]
pub fn alloc(id: CacheId, request: &AllocRequest) -> usize {
    let [_, stock] = id.hardened_words();
    let source = if checking::is_hardened() { stock } else { Roles::of(id).source };
    percpu::pop(Access::get(), source).unwrap_or_else(|| slow::alloc_slow(id, request))
}

/// Notes the bytes that its owner requests of an object that is alone in its slab. Returns those of
/// the request before: 0 if it has never been used, and so reads as zeros.
#[inline]
#[must_use]
pub fn request_of_alone(object: usize, bytes: usize) -> usize {
    Granule::of(object)
        .map_or(bytes, |granule| slab::header(granule).request(bytes as u32) as usize)
}

/// The size class that the owner map has for an address; `None` for any other one.
#[inline]
#[must_use]
pub fn size_class_of(address: usize) -> Option<CacheId> {
    CacheId::of_size_class_entry(granule::owner_of(address)? as u16)
}

/// Frees a block of malloc in a hardened process, if it is an object like most. False, with nothing
/// changed, if it is another one, or an error. Keeps `errno`.
///
/// # Safety
/// The caller no longer uses the block.
#[inline]
pub unsafe fn free_quick(block: usize) -> bool {
    granule::owner_of(block).is_some_and(|entry| hardened::free_quick(entry, block))
}

/// Frees an object by the slow path, after checking that the address, which is in a slab of the
/// cache, starts an object; aborts the process otherwise.
///
/// # Safety
/// As [`crate::raw::Cache::free`].
pub unsafe fn check_and_free(id: CacheId, object: usize) {
    // The others check that by the object's canary, see `quarantine`.
    if id.shape().is_plain() {
        flush::check_starts_object(id, object);
    }
    slow::free_slow(id, object);
}

/// Frees a trap of malloc, on behalf of the caller of a function; aborts the process,
/// with a report, if it is none.
///
/// # Safety
/// As [`crate::raw::Cache::free`].
pub unsafe fn free_trap(block: usize, frame: Frame) {
    let (id, object) = trap::free(block, frame);
    slow::push(id, object);
    surplus::after_free();
}

/// Defers a trap of malloc, likewise.
///
/// # Safety
/// As [`crate::raw::Cache::free_rcu`].
pub unsafe fn free_rcu_trap(block: usize, frame: Frame) {
    slow::free_rcu_slow(trap::defer(block, frame), block);
}

/// Defers an object by the slow path, on behalf of the caller of a function; aborts the process
/// if the address starts no object of the cache.
///
/// # Safety
/// As [`crate::raw::Cache::free_rcu`].
pub unsafe fn check_and_free_rcu(id: CacheId, object: usize, frame: Frame) {
    flush::check_starts_object(id, object);
    if granule::is_watched(object) {
        profile::defer(object, frame);
    }
    slow::free_rcu_slow(id, object);
}
