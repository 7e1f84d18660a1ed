//! Growing and shrinking while readers and writers continue.
//!
//! ```text
//!   start:   a writer links an empty table of another size to the map's table
//!   move:    every writer moves a few units: it locks the unit's old chains, puts their entries
//!            into the new ones, and marks the old ones as moved
//!   left:    units whose chains another thread keeps locked are skipped, and moved later
//!   finish:  the writer that moves the last unit makes the new table the map's
//! ```
//!
//! The places of the old chains have the hash bits that tell the new ones, so entries are not read,
//! but where the bits are exhausted. An entry is not copied: the new table points to what the old
//! one points to. So an old chain that has moved stays complete: a reader that came before
//! continues in it, and no lookup restarts. A reader that comes later sees the mark and goes to the
//! new chain. A new chain is reached only through a marked old one, so that it is complete when it
//! is first seen. The old table is freed after a grace period.
//!
//! In the child of a fork a thread may be missing that was moving a unit. The marks tell how far it
//! was, and the next thread that takes the locks continues:
//!
//! | marked | the new chains | what is done |
//! |---|---|---|
//! | no chain | were being filled, and no thread reaches them | they are cleared, the unit moves |
//! | the first of two | are complete; the second old one has not changed | it is marked, too |
//! | all | are complete | nothing |
//!
//! Lookups that continue during a resize are the aim of Triplett, McKenney and Walpole, "Resizable,
//! Scalable, Concurrent Hash Tables via Relativistic Programming" (USENIX ATC 2011), whose chains
//! link the entries, and are unzipped with grace periods in between. Buckets of one cache line with
//! hash bytes in front are those of David, Guerraoui and Trigonakis, "Asynchronized Concurrency"
//! (ASPLOS 2015, CLHT), and of Folly's F14.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use sheaves_rcu::read;
use sheaves_sys::{fork, report};

use super::Tables;
use super::bucket::{Bucket, Held};
use super::lock::MOVED;
use super::table::{BUCKETS_MIN, Rehash, Table};

/// Units that a writer moves at a time: about as much work as ten insertions. So a table of twice
/// the size is complete long before it is full.
const UNITS: usize = 16;
/// Units that a writer looks at, when all are claimed and some were left. Most have moved, and are
/// passed by a load.
const UNITS_PASSED: usize = 64;
/// A table of at most this many buckets grows to this multiple, so that fewer entries move.
const BUCKETS_SMALL_MAX: usize = 64;
const GROWTH_SMALL: usize = 4;
/// A table shrinks when it has more buckets per entry than this.
const BUCKETS_PER_ENTRY_MAX: usize = 2;

impl<P: Rehash<S>, S> Tables<P, S> {
    /// See `RcuHashMap::reserve`.
    pub(in crate::map) fn reserve(&self, additional: usize) {
        let wanted = Table::<P>::buckets_for(self.len().saturating_add(additional));
        let mut is_possible = false;
        loop {
            let _guard = read();
            let Some(table) = self.table() else {
                if self.try_make_table(wanted) {
                    continue;
                }
                return;
            };
            // SAFETY: tables are not freed during the section.
            let next = unsafe { table.next() };
            let is_new = !is_possible && table.buckets() < wanted;
            if is_new && !Table::<P>::is_possible(wanted) {
                return;
            }
            is_possible = true;
            // Relaxed: a number. From here on the table does not shrink below that.
            self.buckets_min.fetch_max(wanted, Ordering::Relaxed);
            if [Some(table), next].into_iter().flatten().all(|table| table.buckets() >= wanted) {
                return;
            }
            if next.is_none() {
                self.start(table, table.buckets() * 2);
            }
            // Not all in one read section, so that grace periods end meanwhile.
            // Relaxed, both: whether units were moved in this one.
            let moved = table.moved.load(Ordering::Relaxed);
            for _ in 0..UNITS_PASSED {
                self.help(table);
            }
            if self.is_current(table) && table.moved.load(Ordering::Relaxed) == moved {
                return;
            }
        }
    }

    /// Called after an insertion that found its chain full: makes a table larger that is too small.
    #[cold]
    #[inline(never)]
    pub(in crate::map) fn grow(&self, table: &Table<P>) {
        if self.is_current(table) && table.len() > table.capacity() {
            let is_small = table.buckets() <= BUCKETS_SMALL_MAX;
            self.start(table, table.buckets() * if is_small { GROWTH_SMALL } else { 2 });
        }
    }

    /// Called after a removal that emptied a chain: halves the table if it is too large.
    #[cold]
    #[inline(never)]
    pub(in crate::map) fn shrink(&self, table: &Table<P>) {
        let buckets = table.buckets();
        // Relaxed: a number.
        let least = BUCKETS_MIN.max(self.buckets_min.load(Ordering::Relaxed));
        let is_sparse = || P::SHRINKS && table.len() < buckets / BUCKETS_PER_ENTRY_MAX;
        if buckets > least && self.is_current(table) && is_sparse() {
            self.start(table, buckets / 2);
        }
    }

    /// True for the map's table: entries move out of it only, never out of one that they move into.
    fn is_current(&self, table: &Table<P>) -> bool {
        self.table().is_some_and(|current| core::ptr::eq(current, table))
    }

    /// Begins to move entries to a table of another size. Without memory it does nothing, and
    /// chains get longer.
    fn start(&self, table: &Table<P>, buckets: usize) {
        // Relaxed, all: only a hint that another thread is making the table.
        let (ended_in, here) = (&table.ended_in, fork::generation() + 1);
        if ended_in.load(Ordering::Relaxed) == here
            || ended_in.swap(here, Ordering::Relaxed) == here
        {
            return;
        }
        let next = Table::new(buckets, table.series, false);
        if next.is_null() {
            ended_in.store(0, Ordering::Relaxed);
            return;
        }
        // Release pairs with the Acquire in `Table::next`. Relaxed on failure: ours is not used. In
        // the child of a fork the thread that forked may have been here, too. [M4]
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        if table.next.compare_exchange(null_mut(), next, release, relaxed).is_err() {
            // Units may be left that other threads of the parent have claimed.
            table.leave();
            // SAFETY: made above, and no other thread knows it.
            unsafe { sheaves_heap::free(next.cast()) };
        }
    }

    /// Moves a few units of a table that has a next one. Waits for no lock. The caller is in a read
    /// section.
    #[cold]
    #[inline(never)]
    pub(in crate::map) fn help(&self, table: &Table<P>) {
        // SAFETY: tables are not freed during the caller's read section.
        let Some(next) = (unsafe { table.next() }) else { return };
        let units = table.units(next);
        // Relaxed, both: only a hint for which units to try; their locks order.
        if table.claimed.load(Ordering::Relaxed) >= units {
            if table.has_left() {
                self.move_left(table, next, units);
            }
            return;
        }
        // Relaxed: as above.
        let first = table.claimed.fetch_add(UNITS, Ordering::Relaxed);
        let claimed = first..(first + UNITS).min(units);
        let count = claimed.len();
        let moved = claimed.filter(|unit| self.move_unit(table, next, *unit)).count();
        if moved < count {
            table.leave();
        }
        self.count_moved(table, next, moved);
    }

    /// Moves units that were left, in order, up to one that is still locked.
    fn move_left(&self, table: &Table<P>, next: &Table<P>, units: usize) {
        for _ in 0..UNITS_PASSED {
            // Acquire pairs with the Release below: all units before have moved. [M6]
            let unit = table.passed.load(Ordering::Acquire);
            if unit == units {
                return self.finish(table, next);
            }
            if self.move_unit(table, next, unit) {
                self.count_moved(table, next, 1);
            } else if !table.has_moved(unit, units) {
                return;
            }
            // AcqRel pairs with itself and the Acquire above. Relaxed on failure: another thread
            // has passed the unit. [M6]
            let (acq_rel, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = table.passed.compare_exchange(unit, unit + 1, acq_rel, relaxed);
        }
    }

    fn count_moved(&self, table: &Table<P>, next: &Table<P>, count: usize) {
        // AcqRel: the thread that moves the last unit has seen all others moved, and publishes
        // that.
        let before = table.moved.fetch_add(count, Ordering::AcqRel);
        if count > 0 && before + count == table.units(next) {
            self.finish(table, next);
        }
    }

    /// Moves the entries of a bucket of the smaller table, or of the two that become one. False if
    /// they have moved, or another thread keeps a chain locked.
    fn move_unit(&self, old: &Table<P>, new: &Table<P>, unit: usize) -> bool {
        let units = old.units(new);
        let mut chains = old.chains(unit, units);
        let (Some(first), second) = (chains.next(), chains.next()) else { return false };
        // Only here does a thread hold two locks, and it waits for neither.
        let Some(low) = first.try_lock() else {
            if first.word() & MOVED != 0
                && let Some(high) = second.and_then(Bucket::try_lock)
            {
                // The thread that has moved the unit is not in this process: it held both locks.
                // SAFETY: the first mark is made when the new chains have the entries of both.
                unsafe { high.mark() };
            }
            return false;
        };
        let high = second.map(Bucket::try_lock);
        if matches!(high, Some(None)) {
            return false;
        }
        let abort_on_unwind = AbortOnUnwind;
        // SAFETY: no other thread reaches the new chains before the first old one is marked.
        unsafe { new.clear(unit, units) };
        let mut words = [0; GROWTH_SMALL];
        let held = [Some(low), high.flatten()];
        for chain in held.iter().flatten() {
            self.copy_chain(chain, old, new, unit, &mut words);
        }
        // Published first, so that what a mark leads to is complete.
        new.chains(unit, units).zip(words).for_each(|(bucket, word)| bucket.word.publish(word));
        // In order: where the first chain is not marked, the second is not either, and where it is,
        // the new ones have the entries of both. Iterations look at the first.
        for chain in held.into_iter().flatten() {
            // SAFETY: as the comments above say.
            unsafe { chain.mark() };
        }
        core::mem::forget(abort_on_unwind);
        true
    }

    /// Copies the entries of a chain of a unit into the new ones, whose words these are.
    #[inline(always)]
    fn copy_chain(
        &self,
        chain: &Held<'_, P>,
        old: &Table<P>,
        new: &Table<P>,
        unit: usize,
        words: &mut [u64; GROWTH_SMALL],
    ) {
        let (mask, shift) = (new.buckets() - 1, old.units(new).trailing_zeros());
        let copy = |content: P::Content, tag: u64| {
            // SAFETY: its chain is locked.
            let hash = unsafe { P::hash(content, &self.hasher, old, new) };
            let side = (hash as usize & mask) >> shift;
            let target = new.bucket((unit + (side << shift)) as u64);
            let word = &mut words[side % GROWTH_SMALL];
            // SAFETY: buckets are not freed during the caller's read section, and the old locks
            // keep other threads from these.
            unsafe { target.add(word, tag, P::with_hash(content, hash, new)) };
        };
        // SAFETY: as above.
        unsafe { chain.first.for_each(chain.word, copy) };
    }

    /// Called when every entry has moved: makes the new table the map's, unless another thread has,
    /// or the map was cleared meanwhile.
    fn finish(&self, old: &Table<P>, new: &Table<P>) {
        let [from, to] = [old, new].map(Table::pointer);
        // Release pairs with the Acquire in `table`: all marks, and what they lead to. Relaxed on
        // failure: nothing is read. The address is not that of another table: `old` is not freed
        // during the caller's read section. [M5]
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        if self.table.compare_exchange(from, to, release, relaxed).is_err() {
            return;
        }
        // SAFETY: from `Table::new`; later lookups find the new one.
        unsafe { old.retire() };
        // A thread that moved a unit may have slept while others inserted. If they only replace
        // values from now on, they will not check the size again.
        self.grow(new);
        self.shrink(new);
    }
}

/// A hasher that panics during a move would leave entries behind: aborts the process.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        report::die(format_args!("map: hashing a key panicked while the table was being resized"));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/map_resize.rs"]
mod tests;
