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
//! | in quarantine | zero, or something wrote to a free object | its inverse |
//! | free in a slab | the same | its inverse, or zero: its page was discarded |
//!
//! So the canary is the state of the object: a free expects [`canary`], and inverts it. Where it is
//! inverted already, that is a second free. Objects without a canary have their state in the header
//! of their slab (`Slab::hold`).
//!
//! So the fast path of `malloc` has nothing to do: the canary is there when a sheaf is filled.
//! Freed objects of debug caches hold [`POISON`] in place of zeros. The bytes of caches with a
//! constructor, and of type-stable ones, are not touched.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::{map, report, tls};

use crate::parts::shape::{CANARY_BYTES, Shape};
use crate::records::last_frees;
use crate::records::secret::{Order, canary};
use crate::space::checking::Checking;

/// Contents of freed objects of debug caches (the byte of the kernel's `POISON_FREE`).
pub(crate) const POISON: u8 = 0x6b;
/// Objects are cleared by pieces of this size. A piece that is zero is only read: it may be memory
/// that was never touched.
const PIECE_BYTES: usize = 4096;
/// Objects of up to this size are cleared without a call.
const SHORT_BYTES: usize = 512;
/// At most this much of an object is fetched ahead.
const FETCHED_BYTES: usize = 2048;

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

/// The bit of an object that was never allocated, for [`prepare`].
pub(crate) const NEW: usize = 1;
/// The object this many places ahead is fetched.
const AHEAD: usize = 4;

/// Prepares objects to be allocated, which the caller has taken from their slabs or the quarantine,
/// in random order: checks that nothing was written to them since they were freed, and writes their
/// canaries. A new object, which was never freed, is not read: that would be a page fault.
pub(crate) fn prepare(shape: &Shape, objects: &mut [usize]) {
    let mut order = Order::new(objects.len());
    let has_canary = shape.has_canary();
    for index in 0..objects.len() {
        if let Some(ahead) = objects.get(index + AHEAD) {
            fetch(ahead & !NEW, shape.stride);
        }
        let (is_new, object) = (objects[index] & NEW != 0, objects[index] & !NEW);
        let in_use = canary(object);
        if !is_new {
            check_bytes(shape, object, in_use);
        }
        if has_canary {
            // Relaxed: the object behind it may be freed at the same time, see `check_neighbour`.
            canary_of(shape, object).store(in_use, Ordering::Relaxed);
        }
        objects[index] = object;
        objects.swap(index, order.below(index + 1));
    }
}

/// Fetches the first lines of an object and the last one into the CPU's caches.
#[inline]
fn fetch(object: usize, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint: any address is valid for it.
        let fetch =
            |place| unsafe { _mm_prefetch::<_MM_HINT_T0>(with_exposed_provenance_mut(place)) };
        fetch(object + bytes - 1);
        fetch(object);
        let end = bytes.saturating_sub(64).min(FETCHED_BYTES);
        (64..end).step_by(64).for_each(|place| fetch(object + place));
    }
    let _unused_elsewhere = (object, bytes);
}

/// Checks that nothing was written to an object since it was freed. The caller owns it.
pub(crate) fn check_free(shape: &Shape, object: usize) {
    check_bytes(shape, object, canary(object));
}

#[inline(always)]
fn check_bytes(shape: &Shape, object: usize, in_use: usize) {
    // SAFETY: the object is of this shape and the caller's.
    let bytes = unsafe { bytes_of(object, cleared_bytes(shape)) };
    let mut others = bits_of(bytes);
    if shape.has_canary() {
        // Relaxed: the caller owns the object.
        others |= canary_of(shape, object).load(Ordering::Relaxed) as u64 ^ !in_use as u64;
    }
    if others != 0 {
        examine(shape, object, bytes, in_use);
    }
}

/// Reports what [`check_bytes`] has found, unless it is poison, or no canary: that of an object
/// that was never allocated, or whose page was discarded.
#[cold]
fn examine(shape: &Shape, object: usize, bytes: &[u8], in_use: usize) {
    let is_poison = shape.checking == Checking::Debug && bytes.first() == Some(&POISON);
    let expected = if is_poison { POISON } else { 0 };
    if let Some(place) = bytes.iter().position(|byte| *byte != expected) {
        report_write(shape, object, place);
    }
    if shape.has_canary() {
        // Relaxed: the caller owns the object.
        let found = canary_of(shape, object).load(Ordering::Relaxed);
        if found != 0 && found != !in_use {
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

/// What [`mark_free`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It was in use, and is free now.
    InUse,
    /// It was free already.
    Free,
    /// Something else than its canary.
    Damage,
}

/// Inverts the canary of an object that is in use: from then on it is free, and the caller's. Of
/// two threads that free it at once one does.
#[inline]
pub(crate) fn mark_free(shape: &Shape, object: usize) -> Found {
    let (place, in_use) = (canary_of(shape, object), canary(object));
    // Relaxed, all: the thread that has inverted it owns the object, which it got by an ordered
    // path, and gives it away by another one.
    let mut found = place.load(Ordering::Relaxed);
    if found == in_use {
        if tls::is_single_threaded() {
            place.store(!in_use, Ordering::Relaxed);
            return Found::InUse;
        }
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        match place.compare_exchange(in_use, !in_use, success, failure) {
            Ok(_) => return Found::InUse,
            Err(other) => found = other,
        }
    }
    if found == !in_use { Found::Free } else { Found::Damage }
}

/// True if the canary of an object says that it is free.
pub(crate) fn is_marked_free(shape: &Shape, object: usize) -> bool {
    // Relaxed: a snapshot, of an object that its owner changed last.
    canary_of(shape, object).load(Ordering::Relaxed) == !canary(object)
}

/// Makes good what [`mark_free`] has found damaged, after a report.
pub(crate) fn mend(shape: &Shape, object: usize) {
    // Relaxed: the object is the caller's.
    canary_of(shape, object).store(!canary(object), Ordering::Relaxed);
}

#[cold]
pub(crate) fn report_overflow(shape: &Shape, object: usize) {
    let (name, size) = (shape.name(), shape.size);
    found(format_args!(
        "object {object:#x} of cache {name} (size {size}): something was written past its end"
    ));
}

/// Checks the canary of the object before one that is freed, in the same slab, whatever its state.
#[inline]
pub(crate) fn check_neighbour(shape: &Shape, object: usize) {
    let neighbour = object - shape.stride;
    // Relaxed: it changes between these values, and to 0 when its page is discarded.
    let found = canary_of(shape, neighbour).load(Ordering::Relaxed);
    let expected = canary(neighbour);
    if found != expected && found != !expected && found != 0 {
        report_underflow(shape, object, neighbour);
    }
}

#[cold]
fn report_underflow(shape: &Shape, object: usize, neighbour: usize) {
    let (name, size) = (shape.name(), shape.size);
    found(format_args!(
        "object {object:#x} of cache {name} (size {size}): something was written before its \
         start, or past the end of {neighbour:#x}"
    ));
}

/// Clears an object that is freed.
pub(crate) fn clear(shape: &Shape, object: usize) {
    // SAFETY: the object is of this shape and was freed.
    let bytes = unsafe { bytes_of(object, cleared_bytes(shape)) };
    let value = if shape.checking == Checking::Debug { POISON } else { 0 };
    if value != 0 || bytes.len() < PIECE_BYTES {
        bytes.fill(value);
    } else {
        fill_with_zeros(bytes);
    }
}

/// [`clear`] for an object of a size class at level 1.
#[inline(always)]
pub(crate) fn clear_quick(shape: &Shape, object: usize) {
    if shape.stride > SHORT_BYTES {
        return clear(shape, object);
    }
    for place in (object..object + shape.stride - CANARY_BYTES).step_by(CANARY_BYTES) {
        // SAFETY: a word of the object, which was freed. Volatile: a call of `memset` takes longer.
        unsafe { with_exposed_provenance_mut::<u64>(place).write_volatile(0) };
    }
}

/// All bytes, whose number is a multiple of 8, or-ed to one word. By lines, without a branch for
/// each word.
#[inline(always)]
fn bits_of(bytes: &[u8]) -> u64 {
    fn add<const WORDS: usize>(bits: &mut [u64; WORDS], pieces: &[[[u8; 8]; WORDS]]) {
        for piece in pieces {
            bits.iter_mut().zip(piece).for_each(|(bits, word)| *bits |= u64::from_ne_bytes(*word));
        }
    }
    let (lines, rest) = bytes.as_chunks::<8>().0.as_chunks::<8>();
    // The rest by halves.
    let (four, rest) = rest.as_chunks::<4>();
    let (two, one) = rest.as_chunks::<2>();
    let mut bits = [0; 8];
    add(&mut bits, lines);
    let mut bits: [u64; 4] = core::array::from_fn(|index| bits[index] | bits[index + 4]);
    add(&mut bits, four);
    let mut bits = [bits[0] | bits[2], bits[1] | bits[3]];
    add(&mut bits, two);
    let one = one.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
    bits[0] | bits[1] | one
}

/// Returns the pages of a range to the kernel and makes them inaccessible. The caller owns it.
#[cold]
pub(crate) fn make_inaccessible(address: usize, bytes: usize) {
    // SAFETY: nothing in the range is live.
    unsafe { map::uncommit(address, bytes) };
}

/// Writes zeros into the memory of a new slab. Most of it was cleared already.
pub(crate) fn zero(address: usize, count: usize) {
    // SAFETY: nothing in the range is live.
    fill_with_zeros(unsafe { bytes_of(address, count) });
}

/// Reads before it writes, so that pages without memory stay so.
#[cold]
fn fill_with_zeros(bytes: &mut [u8]) {
    let pieces = bytes.chunks_mut(PIECE_BYTES);
    pieces.filter(|piece| bits_of(piece) != 0).for_each(|piece| piece.fill(0));
}

/// The bytes that are cleared, if any: all but the canary.
#[inline]
fn cleared_bytes(shape: &Shape) -> usize {
    let canary_bytes = if shape.has_canary() { CANARY_BYTES } else { 0 };
    if shape.may_clear() { shape.stride - canary_bytes } else { 0 }
}

/// The place of an object's canary, in a slab of a cache whose objects have one.
#[inline]
fn canary_of(shape: &Shape, object: usize) -> &'static AtomicUsize {
    let place = with_exposed_provenance_mut(object + shape.stride - CANARY_BYTES);
    // SAFETY: callers pass objects of slabs of the shape's cache, which stay mapped, and the last
    // word of each is only a canary: all access to it is atomic. Where a wrong free passes another
    // address, the word is aligned and in the slab, and is only read.
    unsafe { AtomicUsize::from_ptr(place) }
}

/// # Safety
/// `object` starts `count` bytes that the caller owns.
pub(crate) unsafe fn bytes_of<'a>(object: usize, count: usize) -> &'a mut [u8] {
    let start = with_exposed_provenance_mut(object);
    // SAFETY: the same contract.
    unsafe { core::slice::from_raw_parts_mut(start, count) }
}
