//! Large blocks, which `sheaves-heap` samples: a block is a sample if one of its bytes is.

use sheaves_sys::stack::Frame;

use super::sites::{Key, Kind};
use super::{PROFILE, Profile, Record, Request, chance, large_records, rate};
use crate::parts::shape::Name;

/// A block was allocated.
#[inline]
pub fn note_alloc(address: usize, request: &Request) {
    if rate() != 0 {
        open(&mut PROFILE.lock(), address, 0, request);
    }
}

#[cold]
fn open(profile: &mut Profile, address: usize, start: usize, request: &Request) {
    let key = Key { kind: Kind::Large, cache: 0, is_deferral: false };
    profile.open_by_bytes(key, Name::new("large"), address, start, request);
}

/// A block is freed. Called before another thread can get its address.
#[inline]
pub fn note_free(address: usize) {
    if large_records() != 0 {
        PROFILE.lock().close(address);
    }
}

/// A block is freed after a grace period.
#[inline]
pub fn note_deferral(address: usize, frame: Frame) {
    if large_records() != 0 {
        PROFILE.lock().defer(address, frame);
    }
}

/// A block of `old` bytes was resized, and perhaps moved. A longer one can become a sample by the
/// bytes that were added; a shorter one stays one if it still has the byte that made it one. Called
/// before another thread can get the old address.
pub fn note_resize(address: usize, new_address: usize, old: usize, request: &Request) {
    if rate() == 0 && large_records() == 0 {
        return;
    }
    let mut profile = PROFILE.lock();
    match profile.close(address) {
        Some(record) if record.point < request.bytes => {
            let weight = chance::weight(request.bytes, profile.rate);
            let bytes = request.bytes;
            let record = Record { address: new_address, bytes, weight, ..record };
            let is_inserted = profile.insert(record);
            debug_assert!(is_inserted, "an entry was just removed");
        }
        Some(_) => {}
        None if rate() != 0 && request.bytes > old => {
            open(&mut profile, new_address, old, request);
        }
        None => {}
    }
}
