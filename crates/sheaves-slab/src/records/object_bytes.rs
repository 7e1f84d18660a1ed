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
//! | ready to be allocated | zero, as far as [`prepare`] checks | [`canary`] |
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
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use sheaves_sys::{map, tls};

use crate::parts::shape::{CANARY_BYTES, Shape};
use crate::records::last_frees;
use crate::records::secret::{Order, canary};
use crate::space::checking::Checking;

/// Contents of freed objects of debug caches (the byte of the kernel's `POISON_FREE`).
pub(crate) const POISON: u8 = 0x6b;
const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// At level 1 objects with more bytes are cleared by a call, and checked in part.
const WHOLE_BYTES: usize = 512;
/// The lines of such an object that are checked, besides the first and the last one.
const LINES: usize = 8;

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
    sheaves_sys::report::die(text)
}

/// The bit of an object that was never allocated, for [`prepare`].
pub(crate) const NEW: usize = 1;
/// Such objects change places within this many bytes, and two at least. Programs walk through
/// what they have allocated in a row, and wait for memory if that is in another order.
const NEW_BYTES: usize = 512;
/// The object this many places ahead is fetched.
const AHEAD: usize = 4;

/// Prepares objects to be allocated, which the caller has taken from their slabs or the quarantine,
/// in random order: writes their canaries, and checks that nothing was written to them since they
/// were freed. At level 1 larger ones are checked by [`bits_of_some`]. One that was never freed is
/// not read: that would be a page fault.
pub(crate) fn prepare(shape: &Shape, objects: &mut [usize]) {
    let is_whole = shape.checking != Checking::Hardened || cleared_bytes(shape) <= WHOLE_BYTES;
    // Most sheaves: from the quarantine.
    if is_whole
        && shape.has_canary()
        && objects.iter().fold(0, |all, object| all | object) & NEW == 0
    {
        prepare_each::<true>(shape, objects, true);
    } else {
        prepare_each::<false>(shape, objects, is_whole);
    }
}

/// If `IS_USUAL`, all objects were freed, have a canary, and are checked whole.
#[inline(always)]
fn prepare_each<const IS_USUAL: bool>(shape: &Shape, objects: &mut [usize], is_whole: bool) {
    let has_canary = IS_USUAL || shape.has_canary();
    // Up to two draws for each.
    let (mut order, count) = (Order::new(2 * objects.len()), cleared_bytes(shape));
    let window = (NEW_BYTES / shape.stride).max(2);
    for index in 0..objects.len() {
        if let Some(ahead) = objects.get(index + AHEAD) {
            map::prefetch(ahead & !NEW);
            map::prefetch((ahead & !NEW) + shape.stride - 1);
        }
        let (is_new, object) = match IS_USUAL {
            true => (false, objects[index]),
            false => (objects[index] & NEW != 0, objects[index] & !NEW),
        };
        let in_use = canary(object);
        if !is_new {
            // SAFETY: the object is of this shape and the caller's.
            let bytes = unsafe { bytes_of(object, count) };
            let bits = match IS_USUAL || is_whole {
                true => bits_of(bytes),
                false => bits_of_some(bytes, &mut order),
            };
            check_bits(shape, has_canary, object, bits, in_use);
        }
        if has_canary {
            // Relaxed: the object behind it may be freed at the same time, see `is_neighbour_good`.
            canary_of(shape, object).store(in_use, Ordering::Relaxed);
        }
        let others = if is_new { index % window } else { index };
        let other = index - order.below(others + 1);
        objects[index] = objects[other];
        objects[other] = object;
    }
}

/// Checks all bytes of an object that was freed, which the caller owns.
pub(crate) fn check(shape: &Shape, object: usize) {
    // SAFETY: the object is of this shape and the caller's.
    let bits = bits_of(unsafe { bytes_of(object, cleared_bytes(shape)) });
    check_bits(shape, shape.has_canary(), object, bits, canary(object));
}

/// Looks closer at an object that was freed unless the bits of its bytes are 0, and its canary is
/// the inverse of that of one in use.
#[inline(always)]
fn check_bits(shape: &Shape, has_canary: bool, object: usize, bits: u64, in_use: usize) {
    // Relaxed: the caller owns the object.
    let place = || canary_of(shape, object).load(Ordering::Relaxed);
    let of_canary = if has_canary { place() ^ !in_use } else { 0 };
    if bits | of_canary as u64 != 0 {
        examine(shape, object);
    }
}

/// Reports what was written to an object since it was freed, if anything. The caller owns it. It is
/// no error if its canary is 0: it was never allocated, or its page was discarded.
#[cold]
fn examine(shape: &Shape, object: usize) {
    // SAFETY: the object is of this shape and the caller's.
    let bytes = unsafe { bytes_of(object, cleared_bytes(shape)) };
    let is_poison = shape.checking == Checking::Debug && bytes.first() == Some(&POISON);
    let expected = if is_poison { POISON } else { 0 };
    let written = bytes.iter().position(|byte| *byte != expected);
    let is_canary_good = !shape.has_canary() || {
        // Relaxed: the caller owns the object.
        let found = canary_of(shape, object).load(Ordering::Relaxed);
        found == 0 || found == !canary(object)
    };
    let canary = (!is_canary_good).then_some(shape.stride - CANARY_BYTES);
    for place in [written, canary].into_iter().flatten() {
        last_frees::report(object, object + shape.stride);
        let what = format_args!(" was written to while it was free, at byte {place}");
        report(shape, object, what);
    }
}

/// Inverts the canary of an object that is in use: from then on it is free, and the caller's. Of
/// two threads that free it at once one does. False, with nothing changed, for any other word.
#[inline]
pub(crate) fn mark_free(shape: &Shape, object: usize) -> bool {
    let (place, in_use) = (canary_of(shape, object), canary(object));
    // Relaxed, all: the thread that has inverted it owns the object, which it got by an ordered
    // path, and gives it away by another one.
    if place.load(Ordering::Relaxed) != in_use {
        return false;
    }
    if tls::is_single_threaded() {
        place.store(!in_use, Ordering::Relaxed);
        return true;
    }
    place.compare_exchange(in_use, !in_use, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// True if the canary of an object says that it is free.
pub(crate) fn is_marked_free(shape: &Shape, object: usize) -> bool {
    // Relaxed: a snapshot, of an object that its owner changed last.
    canary_of(shape, object).load(Ordering::Relaxed) == !canary(object)
}

/// Reports that an object which is freed has another word than its canary, and makes that good.
#[cold]
pub(crate) fn mend(shape: &Shape, object: usize) {
    report_overflow(shape, object);
    // Relaxed: the object is the caller's.
    canary_of(shape, object).store(!canary(object), Ordering::Relaxed);
}

#[cold]
pub(crate) fn report_overflow(shape: &Shape, object: usize) {
    report(shape, object, format_args!(": something was written past its end"));
}

/// Checks the canary of the object before one that is freed, in the same slab, whatever its state.
/// There is none at place 0.
#[inline]
pub(crate) fn is_neighbour_good(shape: &Shape, object: usize, place: usize) -> bool {
    if place == 0 {
        return true;
    }
    let neighbour = object - shape.stride;
    // Relaxed: it changes between these values, and to 0 when its page is discarded.
    let found = canary_of(shape, neighbour).load(Ordering::Relaxed);
    // One comparison for the canary and its inverse: which it is is as good as random.
    (found ^ canary(neighbour)).wrapping_add(1) <= 1 || found == 0
}

pub(crate) fn report(shape: &Shape, object: usize, what: core::fmt::Arguments<'_>) {
    let (name, size) = (shape.name(), shape.size);
    found(format_args!("object {object:#x} of cache {name} (size {size}){what}"));
}

/// Clears an object that is freed.
pub(crate) fn clear(shape: &Shape, object: usize) {
    // SAFETY: the object is of this shape and was freed.
    let bytes = unsafe { bytes_of(object, cleared_bytes(shape)) };
    match shape.checking {
        Checking::Debug => bytes.fill(POISON),
        _ if bytes.len() < PAGE_BYTES => bytes.fill(0),
        _ => _ = zero(object, bytes.len(), usize::MAX),
    }
}

/// [`clear`] for an object of a size class, whose stride is a multiple of 16, outside of debug
/// mode. By pieces that may overlap, which takes few branches, and of which none crosses a line.
/// False, with nothing changed, for a larger one.
#[inline(always)]
pub(crate) fn clear_short(shape: &Shape, object: usize) -> bool {
    fn clear_ends<const BYTES: usize>(bytes: &mut [u8]) -> Option<()> {
        *bytes.first_chunk_mut()? = [0; BYTES];
        *bytes.last_chunk_mut()? = [0; BYTES];
        Some(())
    }
    // SAFETY: as in `clear`.
    let bytes = unsafe { bytes_of(object, shape.stride - CANARY_BYTES) };
    if bytes.len() > WHOLE_BYTES {
        return false;
    }
    let Some((bytes, word)) = bytes.split_last_chunk_mut::<8>() else { return false };
    *word = [0; 8];
    if let Some(last) = bytes.last_chunk_mut::<LINE_BYTES>() {
        *last = [0; LINE_BYTES];
        let before = bytes.len() - 1;
        for line in bytes[..before].as_chunks_mut::<LINE_BYTES>().0 {
            *line = [0; LINE_BYTES];
            // SeqCst pairs with nothing. The compiler would call `memset`, which takes longer.
            compiler_fence(Ordering::SeqCst);
        }
    } else {
        let _any = clear_ends::<32>(bytes).or_else(|| clear_ends::<16>(bytes));
    }
    true
}

/// Eight words that bytes are or-ed to.
type Bits = [u64; LINE_BYTES / 8];

#[inline(always)]
fn add<const BYTES: usize>(bits: &mut Bits, piece: &[u8; BYTES]) {
    let words = piece.as_chunks::<8>().0;
    bits.iter_mut().zip(words).for_each(|(bits, word)| *bits |= u64::from_ne_bytes(*word));
}

#[inline(always)]
fn folded(bits: Bits) -> u64 {
    bits.iter().fold(0, |all, bits| all | bits)
}

/// All bytes, 8 or more, or-ed to one word. By pieces as in [`clear_short`].
#[inline(always)]
pub(super) fn bits_of(bytes: &[u8]) -> u64 {
    fn of_ends<const BYTES: usize>(bytes: &[u8]) -> Option<u64> {
        let mut bits = Bits::default();
        add::<BYTES>(&mut bits, bytes.first_chunk()?);
        add::<BYTES>(&mut bits, bytes.last_chunk()?);
        Some(folded(bits))
    }
    let Some(last) = bytes.last_chunk::<LINE_BYTES>() else {
        return of_ends::<32>(bytes)
            .or_else(|| of_ends::<16>(bytes))
            .or_else(|| of_ends::<8>(bytes))
            .unwrap_or(0);
    };
    let mut bits = Bits::default();
    add(&mut bits, last);
    let lines = bytes[..bytes.len() - 1].as_chunks().0;
    lines.iter().for_each(|line: &[u8; LINE_BYTES]| add(&mut bits, line));
    folded(bits)
}

/// The same of the first line, the last one, and [`LINES`] that are evenly apart, from a random one
/// on. A write of an eighth of the bytes and two lines is in one of them.
#[inline(always)]
fn bits_of_some(bytes: &[u8], order: &mut Order) -> u64 {
    let lines = bytes.as_chunks::<LINE_BYTES>().0;
    let step = lines.len().div_ceil(LINES);
    let mut bits = Bits::default();
    let ends = bytes.first_chunk().into_iter().chain(bytes.last_chunk());
    ends.for_each(|line: &[u8; LINE_BYTES]| add(&mut bits, line));
    let drawn = lines[order.below(step)..].iter().step_by(step);
    drawn.for_each(|line| add(&mut bits, line));
    folded(bits)
}

/// Writes zeros into memory in which nothing is live, an object or a new slab. A whole page is read
/// before it is written, unless its first line is not zero: so one without memory stays so. Behind
/// this number of pages in a row that are zero the rest goes back to the kernel: it may have none.
/// Returns how many bytes are before that.
#[cold]
pub fn zero(address: usize, count: usize, zeros_max: usize) -> usize {
    let head = (address.wrapping_neg() % PAGE_BYTES).min(count);
    // SAFETY: nothing in the range is live.
    let (head, rest) = unsafe { bytes_of(address, count) }.split_at_mut(head);
    head.fill(0);
    let (end, page_bytes) = (address + count, map::page_bytes());
    let mut zeros = 0;
    for page in rest.chunks_mut(PAGE_BYTES) {
        zeros += 1;
        if page.len() < PAGE_BYTES || bits_of(&page[..LINE_BYTES]) != 0 || bits_of(page) != 0 {
            page.fill(0);
            zeros = 0;
        }
        let from = page.as_ptr_range().end.addr();
        if zeros >= zeros_max && (from | end).is_multiple_of(page_bytes) {
            // SAFETY: as above.
            unsafe { map::discard(from, end - from) };
            return from - address;
        }
    }
    count
}

/// Checks pages that were cleared, in which nothing is live: the first one, and of each other one
/// a line at a random place, or all of it.
pub fn check_pages(address: usize, count: usize, is_whole: bool) {
    let line = Order::new(1).below(PAGE_BYTES / LINE_BYTES) * LINE_BYTES;
    for start in (address..address + count).step_by(PAGE_BYTES) {
        let is_all = is_whole || start == address;
        let (from, bytes) = if is_all { (start, PAGE_BYTES) } else { (start + line, LINE_BYTES) };
        // SAFETY: nothing in the pages is live.
        if bits_of(unsafe { bytes_of(from, bytes) }) != 0 {
            let what = "was written to while it was free";
            found(format_args!("memory of a large block at {from:#x} {what}"));
        }
    }
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
