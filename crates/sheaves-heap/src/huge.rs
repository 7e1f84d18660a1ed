//! Blocks above 1 MiB, or with an alignment above that: mappings of their own. Those of up to 64
//! MiB are kept for some time after their blocks are freed, see [`crate::idle`].
//!
//! A table under a lock records them: open addressing with linear probing, keyed by address, at
//! most half full, in a mapping of its own.
//!
//! The kernel refuses to unmap a block between two others when the process has as many mappings as
//! it may have (`vm.max_map_count`). The table keeps such a range; its pages are discarded and read
//! as zeros. The range serves the next block that fits. It is offered to the kernel again once the
//! kernel unmaps another range.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{Ordering, compiler_fence};

use sheaves_sys::lock::{Held, Lock};
use sheaves_sys::{clock, map};

use crate::idle::{IDLE_BYTES_MAX, Idle, Pages, RANGES_MAX};

/// One mapping; address 0 marks an empty entry, an address plus [`KEPT`] a range without a block.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Entry {
    address: usize,
    bytes: usize,
}

impl Entry {
    /// A child of a fork may find the change half made. The order of the stores ensures that it
    /// finds no address with the bytes of an earlier entry.
    fn write(&mut self, new: Entry) {
        self.bytes = new.bytes;
        // SeqCst, for the compiler alone.
        compiler_fence(Ordering::SeqCst);
        self.address = new.address;
        // SeqCst, likewise.
        compiler_fence(Ordering::SeqCst);
    }
}

/// Makes an address different from that of any block.
const KEPT: usize = 1;

/// State under the lock.
#[derive(Debug)]
pub(crate) struct Table {
    /// Address of entry 0, which is page-aligned, plus the binary logarithm of the number of
    /// entries; 0 before the first block. One word, so that a child of a fork finds one table or
    /// the other.
    location: usize,
    /// Number of blocks.
    count: usize,
    /// Sum of their bytes.
    bytes: usize,
    /// Ranges without a block that are in the table.
    kept: usize,
    /// Ranges that may be unmapped or kept, depending on the kernel. Each has a reserved entry,
    /// since the table may be unable to grow when it must keep one.
    in_doubt: usize,
    /// Ranges without a block that are as their blocks left them.
    idle: Idle,
}

const CAPACITY_MIN: usize = 256;
const _: () = assert!(CAPACITY_MIN / 2 > RANGES_MAX);
/// The bits of [`Table::location`] that hold the logarithm.
const LOGARITHM: usize = 63;

pub(crate) static TABLE: Lock<Table> = Lock::new(Table::at(0));

impl Table {
    const fn at(location: usize) -> Table {
        Table { location, count: 0, bytes: 0, kept: 0, in_doubt: 0, idle: Idle::new() }
    }

    /// A table of empty entries. `None` when memory is out.
    fn with_capacity(capacity: usize) -> Option<Table> {
        let entries = map::anywhere(capacity * size_of::<Entry>())?;
        Some(Table::at(entries | capacity.ilog2() as usize))
    }

    /// Number of entries, a power of two.
    fn capacity(&self) -> usize {
        if self.location == 0 { 0 } else { 1 << (self.location & LOGARITHM) }
    }

    fn entries(&self) -> usize {
        self.location & !LOGARITHM
    }

    fn entry(&mut self, index: usize) -> &mut Entry {
        debug_assert!(index < self.capacity());
        let address = self.entries() + index * size_of::<Entry>();
        // SAFETY: inside the table's mapping, which `&mut self` owns; any bytes are an entry.
        unsafe { &mut *with_exposed_provenance_mut::<Entry>(address) }
    }

    /// The index where the search for an address begins.
    fn home(&self, address: usize) -> usize {
        // Fibonacci hashing (Knuth, vol. 3, 6.4) of the page number.
        let hash = (address as u64 >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.capacity() - 1)
    }

    /// Index of the entry of an address, or of the empty entry where it belongs.
    fn probe(&mut self, address: usize) -> usize {
        let mut index = self.home(address);
        while self.entry(index).address != 0 && self.entry(index).address != address {
            index = (index + 1) & (self.capacity() - 1);
        }
        index
    }

    /// Index of the entry of an address.
    fn find(&mut self, address: usize) -> Option<usize> {
        if self.location == 0 || address == 0 {
            return None;
        }
        let index = self.probe(address);
        (self.entry(index).address == address).then_some(index)
    }

    /// Adds an entry. False when the table cannot grow.
    ///
    /// At most half of the entries are used, and at most [`RANGES_MAX`] more, for idle ranges that
    /// the kernel refuses to unmap.
    fn insert(&mut self, new: Entry) -> bool {
        if (self.count + self.kept + self.in_doubt + 1) * 2 > self.capacity() && !self.grow() {
            return false;
        }
        self.store_block(new);
        true
    }

    fn store_block(&mut self, new: Entry) {
        // A child of a fork may know a block that another thread was moving: that block is gone.
        if let Some(index) = self.find(new.address) {
            self.remove(index);
        }
        self.store(new);
        self.count += 1;
        self.bytes += new.bytes;
    }

    fn store(&mut self, new: Entry) {
        let index = self.probe(new.address);
        self.entry(index).write(new);
    }

    fn grow(&mut self) -> bool {
        let capacity = (self.capacity() * 2).max(CAPACITY_MIN);
        let Some(mut larger) = Table::with_capacity(capacity) else { return false };
        for index in 0..self.capacity() {
            let entry = *self.entry(index);
            if entry.address != 0 {
                larger.store(entry);
            }
        }
        self.switch_to(&larger);
        true
    }

    /// Replaces the entries by those of another table.
    fn switch_to(&mut self, other: &Table) {
        let (entries, capacity) = (self.entries(), self.capacity());
        // SeqCst, for the compiler alone: the entries of the new table are written before.
        compiler_fence(Ordering::SeqCst);
        self.location = other.location;
        // SeqCst, as above: the old table is unused after.
        compiler_fence(Ordering::SeqCst);
        if capacity > 0 {
            // SAFETY: the old table's mapping, which nothing refers to any more.
            unsafe { map::unmap(entries, capacity * size_of::<Entry>()) };
        }
    }

    /// Repairs the table in a child of a fork, where a thread that the child does not have was
    /// changing it. An entry that was being moved may be in two places: the one that is found is
    /// complete, the other is removed. Ranges without a block are leaked, because one that was
    /// being taken may have the bytes of another.
    fn recover(&mut self) {
        self.idle = Idle::new();
        (self.count, self.bytes, self.kept, self.in_doubt) = (0, 0, 0, 0);
        let mut index = 0;
        while index < self.capacity() {
            let address = self.entry(index).address;
            let is_block = address != 0 && address & KEPT == 0;
            if address == 0 || (is_block && self.find(address) == Some(index)) {
                index += 1;
            } else {
                // Another entry may move to this place, or an entry that was visited may move to a
                // later one.
                self.clear(index);
            }
        }
        for index in 0..self.capacity() {
            let Entry { address, bytes } = *self.entry(index);
            self.count += usize::from(address != 0);
            self.bytes += if address == 0 { 0 } else { bytes };
        }
    }

    /// Removes the block at `index`.
    fn remove(&mut self, index: usize) -> Entry {
        let removed = self.clear(index);
        self.count -= 1;
        self.bytes -= removed.bytes;
        removed
    }

    /// Changes the length of the block at `index`.
    fn resize(&mut self, index: usize, bytes: usize) {
        let entry = self.entry(index);
        let old_bytes = core::mem::replace(&mut entry.bytes, bytes);
        self.bytes = self.bytes - old_bytes + bytes;
    }

    /// Keeps a range as it is, unless it is too large; what comes back is in doubt.
    fn let_idle(&mut self, range: Entry) -> Option<Entry> {
        let Entry { address, bytes } = range;
        let surplus = match bytes {
            ..=IDLE_BYTES_MAX => self.idle.put(address, bytes, clock::coarse_ms()),
            _ => Some((address, bytes)),
        };
        surplus.map(|pages| self.doubt(pages)).or_else(|| self.surplus())
    }

    /// Takes an idle range that is too old or one too many; it is in doubt from then on.
    fn surplus(&mut self) -> Option<Entry> {
        let surplus = self.idle.surplus(self.bytes, clock::coarse_ms());
        surplus.map(|pages| self.doubt(pages))
    }

    fn doubt(&mut self, (address, bytes): Pages) -> Entry {
        self.in_doubt += 1;
        Entry { address, bytes }
    }

    /// Keeps a range that is in doubt.
    fn keep(&mut self, range: Entry) {
        self.store(Entry { address: range.address + KEPT, bytes: range.bytes });
        self.kept += 1;
        self.in_doubt -= 1;
    }

    /// Takes a range that fits from those that are kept; it is in doubt from then on.
    fn take_kept(&mut self, fits: impl Fn(Entry) -> bool) -> Option<Entry> {
        let end = if self.kept == 0 { 0 } else { self.capacity() };
        for index in 0..end {
            let Entry { address, bytes } = *self.entry(index);
            let range = Entry { address: address & !KEPT, bytes };
            if address & KEPT != 0 && fits(range) {
                self.clear(index);
                self.kept -= 1;
                self.in_doubt += 1;
                return Some(range);
            }
        }
        None
    }

    /// Empties the entry at `index` and closes the gap, so that searches need no tombstones.
    fn clear(&mut self, index: usize) -> Entry {
        let removed = *self.entry(index);
        let mask = self.capacity() - 1;
        let (mut hole, mut next) = (index, (index + 1) & mask);
        while self.entry(next).address != 0 {
            let entry = *self.entry(next);
            let home = self.home(entry.address);
            // The entry may move into the hole unless its home is after the hole.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.entry(hole).write(entry);
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.entry(hole).write(Entry { address: 0, bytes: 0 });
        removed
    }
}

/// A block (0 when memory is out), and whether it reads as zeros.
pub(crate) fn alloc(size: usize, align: usize) -> (usize, bool) {
    const NONE: (usize, bool) = (0, false);
    let page = map::page_bytes();
    let Some(bytes) = size.max(1).checked_next_multiple_of(page) else { return NONE };
    if let Some(address) = alloc_idle(bytes, align) {
        return (address, false);
    }
    if let Some(address) = alloc_kept(bytes, align) {
        return (address, true);
    }
    let Some(address) = map::aligned(bytes, align) else { return NONE };
    if !TABLE.lock().insert(Entry { address, bytes }) {
        // SAFETY: mapped just now, and not returned yet.
        unsafe { map::unmap(address, bytes) };
        return NONE;
    }
    (address, true)
}

/// A block in an idle range.
fn alloc_idle(bytes: usize, align: usize) -> Option<usize> {
    let mut table = TABLE.lock();
    let (address, bytes) = table.idle.take(bytes, align)?;
    if !table.insert(Entry { address, bytes }) {
        // There was room for it just now.
        let _none = table.idle.put(address, bytes, clock::coarse_ms());
        return None;
    }
    Some(address)
}

/// A block in a kept range that is at most twice as large as necessary.
fn alloc_kept(bytes: usize, align: usize) -> Option<usize> {
    let mut table = TABLE.lock();
    let range = table.take_kept(|range| {
        range.address.is_multiple_of(align) && range.bytes >= bytes && range.bytes / 2 <= bytes
    })?;
    table.in_doubt -= 1;
    table.store_block(range);
    Some(range.address)
}

/// Bytes of the block that starts at an address.
pub(crate) fn bytes_of(address: usize) -> Option<usize> {
    let mut table = TABLE.lock();
    let index = table.find(address)?;
    Some(table.entry(index).bytes)
}

/// Has a new block read as zeros, by giving its pages back.
pub(crate) fn clear(address: usize) {
    if let Some(bytes) = bytes_of(address) {
        // SAFETY: the caller has just got the block, and no other thread knows it.
        unsafe { map::discard(address, bytes) };
    }
}

/// True when an address is inside a block. Visits every block: for debug mode.
pub(crate) fn contains(address: usize) -> bool {
    let mut table = TABLE.lock();
    (0..table.capacity()).any(|index| {
        let entry = *table.entry(index);
        entry.address & KEPT == 0 && (entry.address..entry.address + entry.bytes).contains(&address)
    })
}

/// Frees a block; false when none starts at the address.
#[must_use]
pub(crate) fn free(address: usize) -> bool {
    let mut table = TABLE.lock();
    let Some(index) = table.find(address) else { return false };
    let range = table.remove(index);
    let surplus = table.let_idle(range);
    drop(table);
    give_back_all(surplus);
    true
}

/// Unmaps this range, then idle ones for as long as there are too many.
fn give_back_all(mut surplus: Option<Entry>) {
    while let Some(range) = surplus {
        give_back(range);
        surplus = TABLE.lock().surplus();
    }
}

/// Unmaps all idle ranges, and offers those that are kept to the kernel again.
pub(crate) fn trim() {
    loop {
        let mut table = TABLE.lock();
        let oldest = table.idle.take_oldest().map(|pages| table.doubt(pages));
        let Some(range) = oldest.or_else(|| table.take_kept(|_| true)) else { return };
        let is_last = oldest.is_none();
        drop(table);
        give_back(range);
        if is_last {
            return;
        }
    }
}

/// Unmaps a range that is in doubt, then those that are kept for as long as the kernel allows it.
fn give_back(mut range: Entry) {
    loop {
        // SAFETY: removed from the table, so ours alone; it is not used any more.
        let is_unmapped = unsafe { map::unmap(range.address, range.bytes) };
        if !is_unmapped {
            // Whether or not the kernel can discard the pages, they read as zeros then.
            // SAFETY: as above, and still mapped.
            unsafe { map::discard(range.address, range.bytes) };
        }
        let mut table = TABLE.lock();
        if !is_unmapped {
            table.keep(range);
            return;
        }
        table.in_doubt -= 1;
        let Some(next) = table.take_kept(|_| true) else { return };
        range = next;
    }
}

/// Resizes a block, if that needs no copy; 0, with the block unchanged, when it does.
///
/// A block grows into the idle range after it, shrinks by what becomes an idle range, or has its
/// pages moved by the kernel. If a range elsewhere is large enough, a copy costs less than the page
/// faults of new pages.
pub(crate) fn resize(address: usize, size: usize) -> usize {
    let page = map::page_bytes();
    let Some(bytes) = size.checked_next_multiple_of(page) else { return 0 };
    // Held over the system call: otherwise another thread could get the old address from the kernel
    // and look it up before the entry has moved.
    let mut table = TABLE.lock();
    let Some(index) = table.find(address) else { return 0 };
    let old_bytes = table.entry(index).bytes;
    if bytes <= old_bytes {
        return shrink(table, index, bytes);
    }
    if table.idle.extend(address + old_bytes, bytes - old_bytes) {
        table.resize(index, bytes);
        return address;
    }
    if table.idle.has(bytes, page) {
        return 0;
    }
    // SAFETY: the entry proves that the mapping is ours and how large it is; the caller uses only
    // the returned address.
    let Some(moved) = (unsafe { map::resize(address, old_bytes, bytes, true) }) else { return 0 };
    table.remove(index);
    // There is room: an entry was removed just now.
    let inserted = table.insert(Entry { address: moved, bytes });
    debug_assert!(inserted);
    moved
}

/// Shortens a block by whole pages, if that is worth it; returns its address.
fn shrink(mut table: Held<'_, Table>, index: usize, bytes: usize) -> usize {
    let Entry { address, bytes: old_bytes } = *table.entry(index);
    // A range that was taken whole may be larger than its block by a quarter, see `Idle::take`.
    if old_bytes - bytes > bytes / 4 {
        table.resize(index, bytes);
        let rest = Entry { address: address + bytes, bytes: old_bytes - bytes };
        let surplus = table.let_idle(rest);
        drop(table);
        give_back_all(surplus);
    }
    address
}

/// Number of blocks, the sum of their bytes, and the bytes of idle ranges.
pub(crate) fn totals() -> (usize, usize, usize) {
    let table = TABLE.lock();
    (table.count, table.bytes, table.idle.bytes())
}

/// Takes the lock in a child whose fork was not prepared.
pub(crate) fn recover() {
    TABLE.acquire_to_recover(Table::recover);
}

#[cfg(test)]
#[path = "../tests/unit/huge.rs"]
mod tests;
