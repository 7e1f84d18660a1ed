//! One record for each sample, by address.

use crate::records::by_address::{ByAddress, Table};

/// A sample that is allocated or deferred.
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

// SAFETY: all fields are numbers, or false.
unsafe impl ByAddress for Record {
    fn address(&self) -> usize {
        self.address
    }
}

const RECORDS_MAX: usize = 1 << 20;

/// All records.
#[derive(Debug)]
pub(crate) struct Records {
    table: Table<Record>,
    count: usize,
}

impl Records {
    pub(crate) const fn new() -> Records {
        Records { table: Table::new(), count: 0 }
    }

    /// Forgets every record.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.count = 0;
    }

    /// The record of an address.
    pub(crate) fn find(&mut self, address: usize) -> Option<Record> {
        let index = self.table.find(address)?;
        Some(*self.table.entry(index))
    }

    /// Adds a record whose address has none. False when the table cannot grow.
    pub(crate) fn insert(&mut self, record: Record) -> bool {
        if self.count == RECORDS_MAX || !self.table.reserve(self.count + 1) {
            return false;
        }
        self.table.store(record);
        self.count += 1;
        true
    }

    /// Removes the record of an address.
    pub(crate) fn remove(&mut self, address: usize) -> Option<Record> {
        let index = self.table.find(address)?;
        self.count -= 1;
        Some(self.table.remove(index))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/profile_records.rs"]
mod tests;
