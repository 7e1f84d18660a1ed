//! At level 2 and in debug mode: what is right behind the bytes that were requested.
//!
//! ```text
//!   | requested | zone | requested bytes | canary |
//! ```
//!
//! The zone begins with 8 bytes, or fewer where there is less room. None of them is 0, so that a
//! string which is one byte too long is found. The rest are zeros. Objects of size classes have the
//! number of requested bytes in a word of their own; named caches have one number for all objects.
//!
//! All is written by each allocation, which takes a slow path for that, and checked by each free.

use core::ptr::with_exposed_provenance_mut;

use crate::parts::shape::{CANARY_BYTES, Shape};
use crate::records::object_bytes::{bits_of, bytes_of, report_overflow};
use crate::records::secret::canary;
use crate::space::cache_id::CacheId;

/// Bytes of the word with the number of requested bytes.
const WORD_BYTES: usize = size_of::<usize>();
/// The zone has at most this many bytes.
const ZONE_BYTES_MAX: usize = 4096;

/// A word of an object that is not its canary, and tells nothing about it.
fn key(object: usize) -> usize {
    canary(!object)
}

/// The word with the number of requested bytes of an object of a size class.
fn word_of(shape: &Shape, object: usize) -> *mut usize {
    with_exposed_provenance_mut(object + shape.stride - CANARY_BYTES - WORD_BYTES)
}

/// The zone of an object that the caller owns.
#[inline(always)]
fn zone<'a>(is_class: bool, shape: &Shape, object: usize, requested: usize) -> &'a mut [u8] {
    let word_bytes = if is_class { WORD_BYTES } else { 0 };
    let room = shape.stride - CANARY_BYTES - word_bytes - requested;
    // SAFETY: bytes of the object, behind those that its user may use.
    unsafe { bytes_of(object + requested, room.min(ZONE_BYTES_MAX)) }
}

/// The first bytes of a zone.
fn first_bytes(key: usize) -> [u8; 8] {
    (key as u64 >> 8 | 0x0101_0101_0101_0101).to_ne_bytes()
}

/// Notes how many bytes were requested of an object that is about to be allocated: of a size class
/// this number, of a named cache always the same.
pub fn close(id: CacheId, object: usize, requested: usize) {
    let shape = id.shape();
    if !shape.has_zone() {
        return;
    }
    // Others are zero.
    if !shape.may_discard() {
        zone(id.is_class(), shape, object, requested).fill(0);
    }
    close_zeros(id.is_class(), shape, object, requested);
}

/// [`close`] at level 2 for a size class whose objects have a zone.
#[inline]
pub fn close_class(id: CacheId, object: usize, requested: usize) {
    close_zeros(true, id.shape(), object, requested);
}

#[inline(always)]
fn close_zeros(is_class: bool, shape: &Shape, object: usize, requested: usize) {
    let key = key(object);
    if is_class {
        // SAFETY: bytes of the object, which the caller owns, behind those of its user.
        unsafe { word_of(shape, object).write(requested ^ key) };
    }
    let (first, zone) = (first_bytes(key), zone(is_class, shape, object, requested));
    match zone.first_chunk_mut() {
        Some(head) => *head = first,
        None => zone.copy_from_slice(&first[..zone.len()]),
    }
}

/// The requested bytes of an object that is allocated, in a cache with zones. Ends the process if
/// its word was written to.
#[must_use]
pub fn requested(id: CacheId, object: usize) -> usize {
    requested_with(id, id.shape(), object, key(object))
}

fn requested_with(id: CacheId, shape: &Shape, object: usize, key: usize) -> usize {
    if !id.is_class() {
        return shape.size;
    }
    // SAFETY: bytes of the object, behind those of its user.
    let requested = unsafe { word_of(shape, object).read() } ^ key;
    if requested > shape.stride - CANARY_BYTES - WORD_BYTES {
        report_overflow(shape, object);
        return shape.size;
    }
    requested
}

/// Reports what was written behind the requested bytes of an object that is freed.
#[inline(always)]
pub(crate) fn check(id: CacheId, shape: &Shape, object: usize) {
    if !shape.has_zone() {
        return;
    }
    let key = key(object);
    let (first, requested) = (first_bytes(key), requested_with(id, shape, object, key));
    let zone = zone(id.is_class(), shape, object, requested);
    let is_good = match zone.split_first_chunk() {
        Some((head, rest)) => *head == first && is_zero(rest),
        None => *zone == first[..zone.len()],
    };
    if !is_good {
        report_overflow(shape, object);
    }
}

#[inline(always)]
fn is_zero(bytes: &[u8]) -> bool {
    if bytes.len() < 8 { bytes.iter().all(|byte| *byte == 0) } else { bits_of(bytes) == 0 }
}
