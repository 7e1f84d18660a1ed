//! One record for each sample: open addressing with linear probing, keyed by address, at most half
//! full, in a mapping of its own that doubles.

use core::ptr::with_exposed_provenance_mut;

use sheaves_sys::map;

/// A sample that is allocated or deferred. Address 0 marks an empty entry.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub(crate) struct Record {
    pub(crate) address: usize,
    /// The bytes that were requested.
    pub(crate) bytes: usize,
    /// What it stands for: see [`super::chance::weight`].
    pub(crate) weight: u64,
    /// The byte of a large block that made it a sample: a block that becomes shorter is none.
    pub(crate) point: usize,
    /// Index of its site.
    pub(crate) site: u32,
    pub(crate) is_deferred: bool,
}

/// Bounds of the number of entries, a power of two.
const ENTRIES_MIN: usize = 1 << 12;
const ENTRIES_MAX: usize = 1 << 21;

/// All records.
#[derive(Debug)]
pub(crate) struct Records {
    base: usize,
    entries: usize,
    pub(crate) count: usize,
}

impl Records {
    pub(crate) const fn new() -> Records {
        Records { base: 0, entries: 0, count: 0 }
    }

    /// Forgets every record.
    pub(crate) fn clear(&mut self) {
        let old = core::mem::replace(self, Records::new());
        old.unmap();
    }

    fn unmap(self) {
        if self.entries != 0 {
            // SAFETY: the table's own mapping, which nothing refers to any more.
            unsafe { map::unmap(self.base, self.entries * size_of::<Record>()) };
        }
    }

    fn entry(&mut self, index: usize) -> &mut Record {
        debug_assert!(index < self.entries);
        let address = self.base + index * size_of::<Record>();
        // SAFETY: inside the table's mapping, which `&mut self` owns; zeros are a record.
        unsafe { &mut *with_exposed_provenance_mut::<Record>(address) }
    }

    fn home(&self, address: usize) -> usize {
        // Fibonacci hashing (Knuth, vol. 3, 6.4). Addresses of objects are multiples of 8.
        let hash = (address as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.entries - 1)
    }

    /// Index of the entry of an address, or of the empty one where it belongs.
    fn probe(&mut self, address: usize) -> usize {
        let mut index = self.home(address);
        while self.entry(index).address != 0 && self.entry(index).address != address {
            index = (index + 1) & (self.entries - 1);
        }
        index
    }

    /// The record of an address.
    pub(crate) fn find(&mut self, address: usize) -> Option<&mut Record> {
        if self.entries == 0 {
            return None;
        }
        let index = self.probe(address);
        let record = self.entry(index);
        (record.address != 0).then_some(record)
    }

    /// Adds a record whose address has none. False when the table cannot grow.
    pub(crate) fn insert(&mut self, record: Record) -> bool {
        if (self.count + 1) * 2 > self.entries && !self.grow() {
            return false;
        }
        let index = self.probe(record.address);
        debug_assert_eq!(self.entry(index).address, 0);
        *self.entry(index) = record;
        self.count += 1;
        true
    }

    fn grow(&mut self) -> bool {
        let entries = (self.entries * 2).max(ENTRIES_MIN);
        if entries > ENTRIES_MAX {
            return false;
        }
        let Some(base) = map::anywhere(entries * size_of::<Record>()) else { return false };
        let mut larger = Records { base, entries, count: self.count };
        for index in 0..self.entries {
            let record = *self.entry(index);
            if record.address != 0 {
                let place = larger.probe(record.address);
                *larger.entry(place) = record;
            }
        }
        core::mem::replace(self, larger).unmap();
        true
    }

    /// Removes the record of an address, and closes the gap, so that searches need no tombstones.
    pub(crate) fn remove(&mut self, address: usize) -> Option<Record> {
        let removed = *self.find(address)?;
        let mask = self.entries - 1;
        let mut hole = self.probe(address);
        let mut next = (hole + 1) & mask;
        while self.entry(next).address != 0 {
            let record = *self.entry(next);
            let home = self.home(record.address);
            // The record may move into the hole unless its home is after the hole.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                *self.entry(hole) = record;
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.entry(hole).address = 0;
        self.count -= 1;
        Some(removed)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/profile_records.rs"]
mod tests;
