//! The memory of all slots, for contenders that bring none of their own: as many slots as the case
//! says, one stride apart.

use alloc::sync::{Arc, Weak};
use core::ptr::with_exposed_provenance_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use sheaves_percpu::dynamic::PAGE_BYTES;
use sheaves_sys::map;

use crate::harness::failure::Failure;

/// Memory of this process, given back when the last owner is gone.
///
/// Its content belongs to no contender: those that take turns on it write zeroes over it and never
/// read.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: usize,
    bytes: usize,
}

impl Mapping {
    /// Fresh memory, made of small pages as the library's.
    pub(crate) fn new(bytes: usize) -> Result<Mapping, Failure> {
        let start = map::anywhere(bytes).ok_or_else(|| {
            Failure::run(format!("no memory for a contender: {} MiB", bytes >> 20))
        })?;
        map::avoid_huge_pages(start, bytes);
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

/// The mapping that contenders take turns on, as long as one of them exists.
static SHARED: Mutex<Weak<Mapping>> = Mutex::new(Weak::new());

/// How many slots there are, and the memory of each of them.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    /// Slots whose memory is written to. None: objects are handed out, but not zeroed.
    pub(crate) slots: usize,
    /// Bytes of a chunk in one slot.
    pub(crate) unit_bytes: usize,
    /// Bytes of all objects in one slot, with what a contender may add.
    pub(crate) row_bytes: usize,
    private: OnceLock<Arc<Mapping>>,
}

impl SlotMemory {
    /// With memory for `bytes` of objects in each slot.
    pub(crate) fn new(slots: usize, unit_bytes: usize, bytes: usize) -> SlotMemory {
        let row_bytes = bytes.next_multiple_of(unit_bytes) + SPARE_UNITS * unit_bytes;
        SlotMemory { slots, unit_bytes, row_bytes, private: OnceLock::new() }
    }

    /// Distance between two slots: as in the library, no power of two.
    pub(crate) fn stride(&self) -> usize {
        self.row_bytes + PAGE_BYTES
    }

    /// Memory on which contenders take turns whose objects are never read; none without slots.
    pub(crate) fn shared(&self) -> Result<Option<Arc<Mapping>>, Failure> {
        if self.slots == 0 {
            return Ok(None);
        }
        let bytes = self.slots * self.stride();
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = shared.upgrade().filter(|mapping| mapping.bytes >= bytes) {
            return Ok(Some(mapping));
        }
        let mapping = Arc::new(Mapping::new(bytes)?);
        mapping.populate();
        *shared = Arc::downgrade(&mapping);
        Ok(Some(mapping))
    }

    /// Memory of `bytes` for one contender alone; the same at each call.
    pub(crate) fn private(&self, bytes: usize) -> Result<Arc<Mapping>, Failure> {
        if let Some(mapping) = self.private.get().filter(|mapping| mapping.bytes >= bytes) {
            return Ok(Arc::clone(mapping));
        }
        let mapping = Arc::new(Mapping::new(bytes)?);
        mapping.populate();
        // A second mapping can only be asked for with another size, which no contender does.
        let _ = self.private.set(Arc::clone(&mapping));
        Ok(mapping)
    }
}

/// Units beyond what the objects need: for what is at the end of a chunk, and for pools that have
/// just begun a range.
const SPARE_UNITS: usize = 16;

/// Bytes that could be had without driving anything out; none where the kernel does not tell.
pub(crate) fn available_bytes() -> Option<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kibibytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_take_turns_on_one_mapping() {
        let memory = SlotMemory::new(2, 64 << 10, 1 << 20);
        let first = memory.shared().unwrap().unwrap();
        let second = SlotMemory::new(2, 64 << 10, 1 << 20).shared().unwrap().unwrap();
        assert_eq!(first.start(), second.start());
        let own = memory.private(1 << 20).unwrap();
        assert_ne!(own.start(), first.start());
        assert_eq!(own.start(), memory.private(1 << 20).unwrap().start());
        assert!(SlotMemory::new(0, 64 << 10, 1 << 20).shared().unwrap().is_none());
    }

    #[test]
    fn rows_have_room_for_whole_units() {
        let memory = SlotMemory::new(1, 256 << 10, 1);
        assert!(memory.row_bytes.is_multiple_of(256 << 10));
        assert!(!memory.stride().is_power_of_two());
        assert!(available_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}
