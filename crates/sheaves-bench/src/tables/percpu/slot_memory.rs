//! The memory of all slots, for contenders that bring none of their own: as many slots as the case
//! says, one stride apart.

use alloc::sync::Arc;
use core::ptr::with_exposed_provenance_mut;
use std::sync::{Mutex, PoisonError};

use sheaves_percpu::internal::dynamic::PAGE_BYTES;
use sheaves_sys::map;

use crate::harness::Failure;

/// Memory of this process, given back when the last owner is gone.
///
/// Its content belongs to no contender: those that take turns on it write zeroes over it and never
/// read.
pub(crate) struct Mapping {
    start: usize,
    bytes: usize,
}

impl Mapping {
    pub(crate) fn new(bytes: usize) -> Result<Mapping, Failure> {
        let start = map::anywhere(bytes).ok_or_else(|| {
            Failure::run(format!("no memory for a contender: {} MiB", bytes >> 20))
        })?;
        let _ = map::avoid_huge_pages(start, bytes);
        Ok(Mapping { start, bytes })
    }

    /// Touches every page, so that no contender pays for having been the first.
    fn populate(&self) {
        for offset in (0..self.bytes).step_by(PAGE_BYTES) {
            let page = with_exposed_provenance_mut::<u8>(self.start + offset);
            // SAFETY: inside the mapping, to which no reference exists.
            unsafe { page.write_volatile(0) };
        }
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made in `new`; the last owner is going.
        unsafe { map::unmap(self.start, self.bytes) };
    }
}

/// Kept between cases: to populate some gigabytes takes seconds.
static SHARED: Mutex<Option<Arc<Mapping>>> = Mutex::new(None);
static PRIVATE: Mutex<Option<Arc<Mapping>>> = Mutex::new(None);

/// The kept mapping if it will do, or a new one, which is kept from now on.
fn mapping(
    kept: &Mutex<Option<Arc<Mapping>>>,
    will_do: impl Fn(&Arc<Mapping>) -> bool,
    bytes: usize,
) -> Result<Arc<Mapping>, Failure> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mapping) = kept.as_ref().filter(|known| known.bytes >= bytes && will_do(known)) {
        return Ok(Arc::clone(mapping));
    }
    // The old one first: both may not fit.
    *kept = None;
    let mapping = Arc::new(Mapping::new(bytes)?);
    mapping.populate();
    *kept = Some(Arc::clone(&mapping));
    Ok(mapping)
}

pub(crate) struct SlotMemory {
    /// Slots whose memory is written to. None: objects are handed out, but not zeroed.
    pub(crate) slots: usize,
    /// Bytes of a chunk in one slot.
    pub(crate) unit_bytes: usize,
    /// Bytes of all objects in one slot, with what a contender may add.
    pub(crate) row_bytes: usize,
}

impl SlotMemory {
    /// With memory for `bytes` of objects in each slot.
    pub(crate) fn new(slots: usize, unit_bytes: usize, bytes: usize) -> SlotMemory {
        let row_bytes = bytes.next_multiple_of(unit_bytes) + SPARE_UNITS * unit_bytes;
        SlotMemory { slots, unit_bytes, row_bytes }
    }

    /// Distance between two slots: as in the library, no power of two.
    pub(crate) fn stride(&self) -> usize {
        self.row_bytes + PAGE_BYTES
    }

    /// Memory on which contenders take turns whose objects are never read; none without slots.
    pub(crate) fn shared(&self) -> Result<Option<Arc<Mapping>>, Failure> {
        let bytes = self.slots * self.stride();
        (bytes > 0).then(|| mapping(&SHARED, |_| true, bytes)).transpose()
    }

    /// Memory of `bytes` for one contender alone, until it drops it.
    pub(crate) fn private(bytes: usize) -> Result<Arc<Mapping>, Failure> {
        mapping(&PRIVATE, |kept| Arc::strong_count(kept) == 1, bytes)
    }
}

/// Units beyond what the objects need: for what is at the end of a chunk, and for pools that have
/// just begun a range.
const SPARE_UNITS: usize = 16;

#[cfg(test)]
#[path = "../../../tests/unit/tables_percpu_slot_memory.rs"]
mod tests;
