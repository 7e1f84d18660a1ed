//! Tables keyed by address, of samples here and of the large blocks of `sheaves-heap`: open
//! addressing with linear probing, at most half full, in a mapping of their own.
//!
//! A table that doubles keeps its old mapping, and each entry that is stored from then on moves a
//! few others out of it: no call moves them all. Until then an entry is in one of the two.

use core::marker::PhantomData;
use core::ptr::with_exposed_provenance_mut;

use sheaves_sys::lock::step;
use sheaves_sys::map;

/// An entry of a table.
///
/// # Safety
/// Zeros are a value of the type, with address 0.
pub unsafe trait ByAddress: Copy {
    /// The most entries of a table, empty or not.
    const CAPACITY_MAX: usize = usize::MAX;

    /// What it is found by; 0 in an empty entry.
    fn address(&self) -> usize;
}

/// Capacity of the smallest table with memory.
pub const CAPACITY_MIN: usize = 256;
/// Steps in the old mapping with each entry that is stored: one passes an empty place, or moves an
/// entry. With three the last would be done just before the next doubling.
const MOVED: usize = 8;

/// A table of entries with different addresses. The caller serialises the calls.
#[derive(Debug)]
pub struct Table<E> {
    part: Part<E>,
    /// What has doubled, while it has entries; those before `moved` are empty.
    old: Part<E>,
    moved: usize,
    count: usize,
}

impl<E: ByAddress> Table<E> {
    /// A table without entries and memory.
    pub const EMPTY: Table<E> = Table { part: Part::EMPTY, old: Part::EMPTY, moved: 0, count: 0 };

    /// Number of entries, empty or not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.part.capacity + self.old.capacity
    }

    /// Number of entries that are not empty.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The part that has an index, and the index in it. Those of the old part are last.
    fn place(&mut self, index: usize) -> (&mut Part<E>, usize) {
        match index.checked_sub(self.part.capacity) {
            None => (&mut self.part, index),
            Some(index) => (&mut self.old, index),
        }
    }

    /// The entry at an index below the capacity.
    pub fn entry(&mut self, index: usize) -> &mut E {
        let (part, index) = self.place(index);
        part.entry(index)
    }

    /// Index of the entry of an address. Storing one changes it.
    pub fn find(&mut self, address: usize) -> Option<usize> {
        let old = |table: &mut Self| Some(table.part.capacity + table.old.find(address)?);
        self.part.find(address).or_else(|| old(self))
    }

    /// The entry of an address.
    pub fn get(&mut self, address: usize) -> Option<E> {
        let index = self.find(address)?;
        Some(*self.entry(index))
    }

    /// Stores an entry whose address has none. One entry is empty after that.
    pub fn store(&mut self, entry: E) {
        self.part.store(entry);
        self.count += 1;
        self.move_some(MOVED);
    }

    /// Doubles the table if that many more entries would use more than half of it. False when it
    /// cannot grow.
    #[must_use]
    pub fn reserve(&mut self, more: usize) -> bool {
        (self.count + more) * 2 <= self.part.capacity || self.grow()
    }

    /// Doubles the table. False when memory is out, or it is as large as it may be.
    #[must_use]
    pub fn grow(&mut self) -> bool {
        let capacity = (self.part.capacity * 2).max(CAPACITY_MIN);
        if capacity > E::CAPACITY_MAX {
            return false;
        }
        let Some(base) = map::anywhere(capacity * size_of::<E>()) else { return false };
        // A small one may have to double again at once.
        self.move_some(usize::MAX);
        let larger = Part { base, capacity, ..Part::EMPTY };
        (self.old, self.moved) = (core::mem::replace(&mut self.part, larger), 0);
        true
    }

    /// Moves entries from the old part.
    fn move_some(&mut self, most: usize) {
        for _ in 0..most {
            if self.moved == self.old.capacity {
                core::mem::replace(&mut self.old, Part::EMPTY).unmap();
                self.moved = 0;
                return;
            }
            step();
            match self.old.entry(self.moved).address() {
                // No entry's search begins before it: those with a home there are before an empty
                // one, and have been moved.
                0 => self.moved += 1,
                _ => {
                    let entry = self.old.remove(self.moved);
                    self.part.store(entry);
                }
            }
        }
    }

    /// Empties the entry at an index.
    pub fn remove(&mut self, index: usize) -> E {
        self.count -= 1;
        let (part, index) = self.place(index);
        part.remove(index)
    }

    /// Forgets every entry.
    pub fn clear(&mut self) {
        let Table { part, old, .. } = core::mem::replace(self, Table::EMPTY);
        part.unmap();
        old.unmap();
    }
}

/// One mapping of entries.
#[derive(Debug)]
struct Part<E> {
    base: usize,
    /// 0 or a power of two.
    capacity: usize,
    entries: PhantomData<E>,
}

impl<E: ByAddress> Part<E> {
    const EMPTY: Part<E> = Part { base: 0, capacity: 0, entries: PhantomData };

    fn entry(&mut self, index: usize) -> &mut E {
        debug_assert!(index < self.capacity);
        let address = self.base + index * size_of::<E>();
        // SAFETY: inside the mapping, which `&mut self` owns; zeros are an entry.
        unsafe { &mut *with_exposed_provenance_mut::<E>(address) }
    }

    /// The index where the search for an address begins.
    fn home(&self, address: usize) -> usize {
        // Fibonacci hashing (Knuth, vol. 3, 6.4). Addresses are multiples of 8, but for flags.
        let hash = (address as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.capacity - 1)
    }

    /// Index of the entry of an address, or of the empty one where it belongs.
    fn probe(&mut self, address: usize) -> usize {
        let mut index = self.home(address);
        while ![0, address].contains(&self.entry(index).address()) {
            index = (index + 1) & (self.capacity - 1);
        }
        index
    }

    fn find(&mut self, address: usize) -> Option<usize> {
        if self.capacity == 0 || address == 0 {
            return None;
        }
        let index = self.probe(address);
        (self.entry(index).address() == address).then_some(index)
    }

    fn store(&mut self, entry: E) {
        let index = self.probe(entry.address());
        debug_assert_eq!(self.entry(index).address(), 0);
        *self.entry(index) = entry;
    }

    /// Empties the entry at an index and closes the gap, so that searches need no tombstones.
    fn remove(&mut self, index: usize) -> E {
        let removed = *self.entry(index);
        let mask = self.capacity - 1;
        let (mut hole, mut next) = (index, (index + 1) & mask);
        while self.entry(next).address() != 0 {
            let entry = *self.entry(next);
            let home = self.home(entry.address());
            // The entry may move into the hole unless its home is after the hole.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                *self.entry(hole) = entry;
                hole = next;
            }
            next = (next + 1) & mask;
        }
        // SAFETY: zeros are an entry.
        *self.entry(hole) = unsafe { core::mem::zeroed() };
        removed
    }

    fn unmap(self) {
        if self.capacity != 0 {
            // SAFETY: its own mapping, which nothing refers to any more.
            unsafe { map::unmap(self.base, self.capacity * size_of::<E>()) };
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/by_address.rs"]
mod tests;
