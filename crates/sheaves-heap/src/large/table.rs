//! The record of the mappings: blocks, ranges that are kept, idle ones, and those of a hardened
//! process that were freed.

use sheaves_rcu::internal::keeper;
use sheaves_slab::internal::by_address::{self, ByAddress, CAPACITY_MIN};
use sheaves_slab::internal::{Falls, chunk, limit};
use sheaves_sys::clock;
use sheaves_sys::lock::{Lock, step};

use super::idle::{IDLE_BYTES_MAX, Idle, Pages, RANGES_MAX};
use super::sizes;

/// One mapping; address 0 marks an empty entry, an address plus [`KEPT`] a range without a block.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) address: usize,
    pub(super) bytes: usize,
}

impl Entry {
    pub(super) const NONE: Entry = Entry { address: 0, bytes: 0 };
}

// SAFETY: zeros are an entry.
unsafe impl ByAddress for Entry {
    fn address(&self) -> usize {
        self.address
    }
}

/// Makes an address different from that of any block.
pub(super) const KEPT: usize = 1;

/// State under the lock.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) entries: by_address::Table<Entry>,
    /// Number of blocks.
    pub(super) count: usize,
    /// Sum of their bytes.
    pub(super) bytes: usize,
    /// Of these bytes.
    falls: Falls,
    /// Ranges that may be unmapped or kept, depending on the kernel. Each has a reserved entry,
    /// since the table may be unable to grow when it must keep one.
    pub(super) in_doubt: usize,
    /// Ranges without a block, with the contents that their blocks left.
    pub(super) idle: Idle,
    /// Bytes of idle ranges that were returned to the kernel so far.
    pub(super) returned_bytes: u64,
    /// Where the search for ranges that are kept goes on.
    next_kept: usize,
    /// Freed blocks of a hardened process that are still mapped, see `hardened`; the next place.
    pub(super) retired: [Entry; RETIRED],
    pub(super) next_retired: usize,
    /// Of a hardened process: not all blocks are between inaccessible pages.
    pub(super) is_crowded: bool,
}

/// Entries that one search for a range that is kept looks at, see [`Table::take_kept`].
const PIECE: usize = 128;
/// See `hardened`.
pub(super) const RETIRED: usize = 256;
const _: () = assert!(CAPACITY_MIN / 2 > RANGES_MAX);

pub(crate) static TABLE: Lock<Table> = Lock::new(Table::new());

impl Table {
    const fn new() -> Table {
        Table {
            entries: by_address::Table::EMPTY,
            count: 0,
            bytes: 0,
            falls: Falls::NONE,
            in_doubt: 0,
            idle: Idle::new(),
            returned_bytes: 0,
            next_kept: 0,
            retired: [Entry::NONE; RETIRED],
            next_retired: 0,
            is_crowded: false,
        }
    }

    /// Adds an entry. False when the table cannot grow.
    ///
    /// At most half of the entries are used, and at most [`RANGES_MAX`] more, for idle ranges that
    /// the kernel refuses to unmap.
    pub(super) fn insert(&mut self, new: Entry) -> bool {
        let has_room = self.entries.reserve(self.in_doubt + 1);
        if has_room {
            self.store_block(new);
        }
        has_room
    }

    pub(super) fn store_block(&mut self, new: Entry) {
        self.entries.store(new);
        self.count += 1;
        self.bytes += new.bytes;
        self.note_bytes();
    }

    /// Removes the block at `index`.
    pub(super) fn remove(&mut self, index: usize) -> Entry {
        let removed = self.entries.remove(index);
        sizes::forget(removed.address);
        self.count -= 1;
        self.bytes -= removed.bytes;
        removed
    }

    /// Changes the length of the block at `index`.
    pub(super) fn resize(&mut self, index: usize, bytes: usize) {
        let entry = self.entries.entry(index);
        sizes::forget(entry.address);
        let old_bytes = core::mem::replace(&mut entry.bytes, bytes);
        self.bytes = self.bytes - old_bytes + bytes;
    }

    /// The block at `index` has another address, and perhaps another length.
    pub(super) fn move_block(&mut self, index: usize, to: Entry) {
        self.remove(index);
        // There is room: an entry was removed just now.
        self.store_block(to);
    }

    /// Makes a range idle unless it is too large; it waits there if a part of it was cleared.
    /// Returns a range to unmap, which is in doubt.
    pub(super) fn let_idle(&mut self, range: Entry, cleared: usize) -> Option<Entry> {
        let Entry { address, bytes } = range;
        let surplus = match bytes {
            _ if cleared != 0 => {
                self.idle.put_waiting(cleared, (address, bytes), clock::coarse_ms())
            }
            ..=IDLE_BYTES_MAX => self.idle.put(address, bytes, clock::coarse_ms()),
            _ => Some((address, bytes)),
        };
        surplus.map(|pages| self.doubt(pages)).or_else(|| self.surplus())
    }

    /// Without a keeper, takes an idle range that is too old or one too many; it is in doubt from
    /// then on.
    pub(super) fn surplus(&mut self) -> Option<Entry> {
        let decay_ms = limit::decay_ms()?;
        let kept_bytes = if decay_ms == 0 { 0 } else { IDLE_BYTES_MAX.max(self.bytes) };
        let is_much = self.idle.bytes() > kept_bytes;
        let is_kept = keeper::is_active() && decay_ms != 0;
        if is_kept && !(is_much && keeper::is_overdue()) {
            return None;
        }
        let goes_back = is_much && self.falls.may_go_back(self.bytes);
        let bytes_max = if goes_back { kept_bytes } else { usize::MAX };
        self.surplus_of(bytes_max, clock::coarse_ms().saturating_sub(decay_ms))
    }

    /// Takes an idle range that was freed before a time, or one if all have more than `bytes_max`.
    pub(super) fn surplus_of(&mut self, bytes_max: usize, before_ms: u64) -> Option<Entry> {
        let surplus = self.idle.surplus(bytes_max, before_ms);
        surplus.map(|pages| self.doubt(pages))
    }

    /// Tells the limit how many bytes there are. Called when there are more or fewer.
    pub(super) fn note_bytes(&self) {
        chunk::note_other_bytes(self.bytes + self.idle.bytes());
    }

    pub(super) fn doubt(&mut self, (address, bytes): Pages) -> Entry {
        self.in_doubt += 1;
        self.returned_bytes += bytes as u64;
        self.note_bytes();
        Entry { address, bytes }
    }

    /// Keeps a range that the kernel does not unmap. Forgets it if there is no room: its pages are
    /// discarded.
    pub(super) fn keep(&mut self, range: Entry) {
        // A search ends at an empty entry, so there always is one.
        if self.entries.count() + 2 > self.entries.capacity() && !self.entries.grow() {
            return;
        }
        self.entries.store(Entry { address: range.address + KEPT, bytes: range.bytes });
    }

    /// In how many calls [`Table::take_kept`] looks at all ranges.
    pub(super) fn kept_pieces(&self) -> usize {
        // All entries are of blocks where no range is kept.
        let is_any = self.entries.count() != self.count;
        if is_any { self.entries.capacity().div_ceil(PIECE) } else { 0 }
    }

    /// Takes a range that fits from some of those that are kept; it is in doubt from then on.
    pub(super) fn take_kept(&mut self, fits: impl Fn(Entry) -> bool) -> Option<Entry> {
        if self.kept_pieces() == 0 {
            return None;
        }
        for _ in 0..PIECE {
            step();
            let index = self.next_kept % self.entries.capacity();
            let Entry { address, bytes } = *self.entries.entry(index);
            let range = Entry { address: address & !KEPT, bytes };
            if address & KEPT != 0 && fits(range) {
                self.entries.remove(index);
                self.in_doubt += 1;
                return Some(range);
            }
            self.next_kept = index + 1;
        }
        None
    }
}

#[cfg(test)]
#[path = "../../tests/unit/table.rs"]
mod tests;
