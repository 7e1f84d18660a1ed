//! Red zones around every block, with `SHEAVES_DEBUG=1`.
//!
//! ```text
//!   | pad of `front` bytes, ending in {size, hash} | user's bytes | red zone to the end |
//!   ^ start of the block                            ^ address that the user gets
//! ```
//!
//! The pad is as long as the alignment (16 bytes at least). Its last 16 bytes hold the user's size
//! and a hash of size and address, with the logarithm of the pad's length in the low bits. A change
//! of either word is thus detected. The red zone, at least 16 bytes, holds a fixed byte. Both are
//! checked when the block is freed, resized or asked for its size. The object caches below detect
//! double frees and writes after free.

use core::ptr::with_exposed_provenance_mut;

use sheaves_slab::internal::last_frees;
use sheaves_slab::internal::sampling::AllocRequest;
use sheaves_sys::report;
use sheaves_sys::stack::Frame;

use crate::block;

const PAD_BYTES: usize = 16;
const ZONE_BYTES: usize = 16;
/// The byte of the kernel's `SLUB_RED_ACTIVE`.
const ZONE: u8 = 0xcc;
/// Odd, so that different sizes have different products: 2^64 over the golden ratio.
const MIX: usize = 0x9E37_79B9_7F4A_7C15;
/// The part of the hash that holds the logarithm of the pad's length.
const SHIFT_MASK: usize = 63;

/// A block with pad and red zone (0 when memory is out), and whether it reads as zeros.
pub(crate) fn alloc(size: usize, align: usize, frame: Frame) -> (usize, bool) {
    let front = align.max(PAD_BYTES);
    let total = front.checked_add(size).and_then(|bytes| bytes.checked_add(ZONE_BYTES));
    let request = AllocRequest { bytes: size, align, frame };
    let alloc = |total| block::alloc(total, front, &request);
    let (start, reads_zero) = total.map_or((0, false), alloc);
    if start == 0 {
        return (0, false);
    }
    let user = start + front;
    let hash = pad_hash(user, size, front.trailing_zeros() as usize);
    // SAFETY: inside a block that the caller owns, before what the user gets.
    unsafe { pad_of(user).write([size, hash]) };
    zone_of(user, size, start).fill(ZONE);
    (user, reads_zero)
}

/// Checks pad and red zone of a block, and returns the block's start and the size that the user
/// requested; aborts the process on damage.
pub(crate) fn check(user: usize) -> (usize, usize) {
    // The pad is read only where memory is in use by a block: a wild address is not followed.
    if !block::is_in_use(user) || !block::is_in_use(user - PAD_BYTES) {
        last_frees::report(user, user + 1);
        block::foreign(user, "free");
    }
    // SAFETY: inside memory of this heap, as just tested.
    let [size, found] = unsafe { pad_of(user).read_unaligned() };
    let shift = found & SHIFT_MASK;
    if found != pad_hash(user, size, shift) || 1 << shift < PAD_BYTES {
        last_frees::report(user, user + 1);
        report::die(format_args!(
            "block {user:#x} was freed before, is not the start of a block, or was written to \
             before its start"
        ));
    }
    let start = user - (1 << shift);
    let zone = zone_of(user, size, start);
    if let Some(place) = zone.iter().position(|byte| *byte != ZONE) {
        report::die(format_args!(
            "block {user:#x} of {size} bytes was written to at byte {}, past its end",
            size + place
        ));
    }
    (start, size)
}

/// Size and hash, before the address that the user gets.
fn pad_of(user: usize) -> *mut [usize; 2] {
    with_exposed_provenance_mut(user - PAD_BYTES)
}

/// The word between size and block: `shift` in the low bits, a hash above.
fn pad_hash(user: usize, size: usize, shift: usize) -> usize {
    let product = (user ^ size).wrapping_mul(MIX);
    (product ^ (product >> 32)) & !SHIFT_MASK | shift
}

/// The bytes from the end of the user's to the end of the block, at most a page.
fn zone_of<'a>(user: usize, size: usize, start: usize) -> &'a mut [u8] {
    let end = start + block::usable(start);
    let zone = user + size;
    let count = (end - zone).min(4096);
    // SAFETY: inside a block that the caller owns, and no other reference to these bytes exists.
    unsafe { core::slice::from_raw_parts_mut(with_exposed_provenance_mut(zone), count) }
}
