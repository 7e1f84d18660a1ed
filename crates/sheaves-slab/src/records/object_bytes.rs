//! What hardened caches know of the bytes of their objects.
//!
//! ```text
//!   | size                          | slack       | canary |
//!   ^ object                                      ^ 8 bytes at the end of the stride
//! ```
//!
//! | the object is | its bytes are | its canary is |
//! |---|---|---|
//! | in a new slab | zero | zero |
//! | ready to be allocated | zero | [`canary`] |
//! | allocated | the user's | [`canary`], or something was written past an end |
//! | in quarantine, or free in a slab | zero, or something wrote to a free object | [`canary`] |
//!
//! So the fast path of `malloc` has nothing to do: the canary is there when a sheaf is filled.
//! Freed objects of debug caches hold [`POISON`] in place of zeros. The bytes of caches with a
//! constructor, and of type-stable ones, are not touched. An object above 256 KiB (in debug mode,
//! each that is alone in its slab) is inaccessible while it is in quarantine, and its pages go back
//! to the kernel.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::{map, report};

use crate::parts::shape::{CANARY_BYTES, Shape};
use crate::records::secret::canary;
use crate::records::{last_frees, secret};
use crate::space::checking::{self, Checking};

/// Contents of freed objects of debug caches (the byte of the kernel's `POISON_FREE`).
pub(crate) const POISON: u8 = 0x6b;
/// Objects are cleared by pieces of this size. A piece that is zero is only read: it may be memory
/// that was never touched.
const PIECE_BYTES: usize = 4096;

/// In tests findings can be counted: 0 as long as they end the process, else 1 and their number.
#[cfg(feature = "faults")]
#[doc(hidden)]
pub static FINDINGS: AtomicUsize = AtomicUsize::new(0);

/// Reports an error of the program in one line, and ends the process.
#[cold]
pub(crate) fn found(text: core::fmt::Arguments<'_>) {
    #[cfg(feature = "faults")]
    // Relaxed, both: a counter of tests.
    if FINDINGS.load(Ordering::Relaxed) != 0 {
        FINDINGS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    report::die(text)
}

/// Asks the kernel for random bits, in a hardened process. When the heap starts.
pub(crate) fn start() {
    if checking::is_hardened() {
        secret::draw();
    }
}

/// Checks that nothing was written to an object since it was freed, and writes its canary. The
/// caller has just taken it from its slab or the quarantine. A new object, which was never freed,
/// is not read: that would be a page fault.
pub(crate) fn prepare(shape: &Shape, object: usize, is_new: bool) {
    if shape.unreadable {
        return;
    }
    if !is_new {
        check_free(shape, object);
    }
    if shape.has_canary() {
        // SAFETY: the canary is inside the object, which is the caller's.
        let place = unsafe { AtomicUsize::from_ptr(canary_of(shape, object)) };
        // Relaxed: the object behind it may be freed at the same time, see `check_canaries`.
        place.store(canary(object), Ordering::Relaxed);
    }
}

/// Checks that nothing was written to an object since it was freed. The caller owns it.
pub(crate) fn check_free(shape: &Shape, object: usize) {
    if shape.may_clear() && !shape.is_hidden() {
        // SAFETY: the object is of this shape and the caller's.
        let bytes = unsafe { bytes_of(object, cleared_bytes(shape)) };
        let expected =
            if shape.checking == Checking::Debug && bytes[0] == POISON { POISON } else { 0 };
        if !are_all(bytes, expected)
            && let Some(place) = bytes.iter().position(|byte| *byte != expected)
        {
            report_write(shape, object, place);
        }
    }
    if shape.has_canary() {
        // SAFETY: the canary is inside the object, which is the caller's.
        let found = unsafe { canary_of(shape, object).read() };
        if found != 0 && found != canary(object) {
            report_write(shape, object, shape.stride - CANARY_BYTES);
        }
    }
}

#[cold]
fn report_write(shape: &Shape, object: usize, place: usize) {
    last_frees::report(object, object + shape.stride);
    let (name, size) = (shape.name(), shape.size);
    found(format_args!(
        "object {object:#x} of cache {name} (size {size}) was written to while it was free, at \
         byte {place}"
    ));
}

/// Checks the canary of an object that is freed, and that of its neighbour before it.
pub(crate) fn check_canaries(shape: &Shape, object: usize, has_neighbour: bool) {
    if !shape.has_canary() {
        return;
    }
    let load = |object| {
        // SAFETY: the canary is in a slab of the cache, and its last word is only a canary.
        let canary = unsafe { AtomicUsize::from_ptr(canary_of(shape, object)) };
        // Relaxed: it changes from 0 to the canary, and back when its page is discarded.
        canary.load(Ordering::Relaxed)
    };
    if load(object) != canary(object) {
        found(format_args!(
            "object {object:#x} of cache {} (size {}): something was written past its end",
            shape.name(),
            shape.size
        ));
        // SAFETY: the canary is inside the object, which is the caller's.
        unsafe { canary_of(shape, object).write(canary(object)) };
    }
    let neighbour = object - shape.stride;
    if has_neighbour && ![0, canary(neighbour)].contains(&load(neighbour)) {
        found(format_args!(
            "object {object:#x} of cache {} (size {}): something was written before its start, \
             or past the end of {neighbour:#x}",
            shape.name(),
            shape.size
        ));
    }
}

/// Clears an object that is freed, or makes it inaccessible.
pub(crate) fn clear(shape: &Shape, object: usize) {
    if shape.is_hidden() {
        make_inaccessible(object, shape.stride);
    } else if shape.may_clear() {
        // SAFETY: the object is of this shape and was freed.
        let bytes = unsafe { bytes_of(object, cleared_bytes(shape)) };
        if shape.checking == Checking::Debug {
            bytes.fill(POISON);
        } else if bytes.len() < PIECE_BYTES {
            bytes.fill(0);
        } else {
            fill_with_zeros(bytes);
        }
    }
}

/// True if all bytes, whose number is a multiple of 8, have a value. By words, without a branch
/// for each.
fn are_all(bytes: &[u8], value: u8) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    debug_assert!(rest.is_empty());
    let expected = u64::from_ne_bytes([value; 8]);
    words.iter().fold(0, |found, word| found | u64::from_ne_bytes(*word) ^ expected) == 0
}

/// Undoes [`clear`] as far as necessary. False when the object stays inaccessible.
#[must_use]
pub(crate) fn make_accessible(shape: &Shape, object: usize) -> bool {
    // SAFETY: the object is free, and the caller's.
    !shape.is_hidden() || unsafe { map::commit(object, shape.stride) }
}

/// Returns the pages of a range to the kernel and makes them inaccessible. The caller owns it.
pub(crate) fn make_inaccessible(address: usize, bytes: usize) {
    // SAFETY: nothing in the range is live.
    unsafe { map::uncommit(address, bytes) };
}

/// Writes zeros into the memory of a new slab. Most of it was cleared already.
pub(crate) fn zero(shape: &Shape, address: usize, count: usize) {
    if shape.is_hidden() {
        // SAFETY: nothing in the range is live.
        unsafe { map::discard(address, count) };
    } else {
        // SAFETY: as above.
        fill_with_zeros(unsafe { bytes_of(address, count) });
    }
}

/// Reads before it writes, so that pages without memory stay so.
fn fill_with_zeros(bytes: &mut [u8]) {
    let pieces = bytes.chunks_mut(PIECE_BYTES);
    pieces.filter(|piece| !are_all(piece, 0)).for_each(|piece| piece.fill(0));
}

/// The bytes that are cleared: all but the canary.
fn cleared_bytes(shape: &Shape) -> usize {
    shape.stride - if shape.has_canary() { CANARY_BYTES } else { 0 }
}

fn canary_of(shape: &Shape, object: usize) -> *mut usize {
    with_exposed_provenance_mut(object + shape.stride - CANARY_BYTES)
}

/// # Safety
/// `object` starts `count` bytes that the caller owns.
unsafe fn bytes_of<'a>(object: usize, count: usize) -> &'a mut [u8] {
    let start = with_exposed_provenance_mut(object);
    // SAFETY: the same contract.
    unsafe { core::slice::from_raw_parts_mut(start, count) }
}
