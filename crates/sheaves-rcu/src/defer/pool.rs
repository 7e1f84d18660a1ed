//! Memory for what is deferred: sheaves and blocks, cut from mapped chunks.
//!
//! Deferring must work where `malloc` waits for memory, so this memory is mapped directly. A chunk
//! is unmapped when all of its units have come back, except a few chunks that are kept. The lock is
//! held for a handful of instructions, once per hundred objects.
//!
//! ```text
//!   chunk, aligned to its size:  header | unit | unit | ... | never used ...
//! ```
//!
//! # Invariants
//! A chunk is on the list exactly while it has a free unit. Free units are linked through their
//! first words; units from `fresh` on were never written to.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::map;

use super::fault::FAULTS;

/// Size and alignment of a chunk, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Size and alignment of a block of addresses, in bytes.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Number of chunks without a unit in use that are kept mapped.
const SPARE_CHUNKS: u32 = 2;

/// The header of a chunk.
struct Chunk {
    next: *mut Chunk,
    previous: *mut Chunk,
    /// Address of the first free unit that was used before, 0 for none.
    free: usize,
    /// Address of the first unit that was never used.
    fresh: usize,
    /// Units in use.
    used: u32,
    /// The list's `life` when the chunk was added.
    life: u32,
}

struct State {
    /// Chunks with a free unit.
    first: *mut Chunk,
    /// Chunks without a unit in use.
    spare: u32,
    /// How often the list was abandoned. Chunks of an earlier one are lost, with their units.
    life: u32,
}

// SAFETY: chunks are used under the lock only.
unsafe impl Send for State {}

/// Units of one size.
pub(super) struct Pool {
    unit_bytes: usize,
    state: Lock<State>,
    /// Chunks that are mapped; for statistics.
    chunks: AtomicU32,
}

/// 1 KiB, and aligned to it: buffers of calls.
pub(super) static SHEAVES: Pool = Pool::new(sheaves_percpu::Sheaf::BYTES);
/// Blocks of addresses.
pub(super) static BLOCKS: Pool = Pool::new(BLOCK_BYTES);

impl Pool {
    const fn new(unit_bytes: usize) -> Pool {
        assert!(unit_bytes >= size_of::<Chunk>() && CHUNK_BYTES.is_multiple_of(unit_bytes));
        let state = State { first: null_mut(), spare: 0, life: 0 };
        Pool { unit_bytes, state: Lock::new(state), chunks: AtomicU32::new(0) }
    }

    /// A unit, at a multiple of its size. Its contents are arbitrary.
    pub(super) fn take(&self) -> Option<usize> {
        if FAULTS.fails() {
            return None;
        }
        let mut state = self.state.lock();
        if state.first.is_null() {
            drop(state);
            let made = self.make()?;
            state = self.state.lock();
            // SAFETY: made above, and not shared yet.
            unsafe { state.link(made) };
            state.spare += 1;
        }
        // SAFETY: a chunk on the list, used under the lock only.
        let chunk = unsafe { &mut *state.first };
        state.spare -= u32::from(chunk.used == 0);
        chunk.used += 1;
        let unit = chunk.take(self.unit_bytes);
        if chunk.is_exhausted() {
            state.unlink(chunk);
        }
        Some(unit)
    }

    /// Returns a unit to the pool.
    ///
    /// # Safety
    /// It came from [`Pool::take`] of this pool, and is not used any more.
    pub(super) unsafe fn give(&self, unit: usize) {
        let address = unit & !(CHUNK_BYTES - 1);
        let mut state = self.state.lock();
        // SAFETY: the chunk of a unit that was in use, used under the lock only.
        let chunk = unsafe { &mut *with_exposed_provenance_mut::<Chunk>(address) };
        if chunk.life != state.life {
            return;
        }
        let was_exhausted = chunk.is_exhausted();
        // SAFETY: the unit belongs to this function, by the contract, and has room for a word.
        unsafe { with_exposed_provenance_mut::<usize>(unit).write(chunk.free) };
        chunk.free = unit;
        chunk.used -= 1;
        if was_exhausted {
            // SAFETY: it was on no list.
            unsafe { state.link(chunk) };
        }
        if chunk.used > 0 {
            return;
        }
        if state.spare < SPARE_CHUNKS {
            state.spare += 1;
            return;
        }
        state.unlink(chunk);
        drop(state);
        // Relaxed: statistics.
        self.chunks.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: mapped by `make`, none of its units is in use, and it is on no list.
        unsafe { map::unmap(address, CHUNK_BYTES) };
    }

    /// Maps a spare chunk, so that the next requests need no system call.
    pub(super) fn refill(&self) {
        if self.state.lock().spare > 0 {
            return;
        }
        let Some(made) = self.make() else { return };
        let mut state = self.state.lock();
        // SAFETY: made above, and not shared yet.
        unsafe { state.link(made) };
        state.spare += 1;
    }

    fn make(&self) -> Option<*mut Chunk> {
        let address = map::aligned(CHUNK_BYTES, CHUNK_BYTES)?;
        let chunk = with_exposed_provenance_mut::<Chunk>(address);
        let fresh = address + self.unit_bytes;
        let header =
            Chunk { next: null_mut(), previous: null_mut(), free: 0, fresh, used: 0, life: 0 };
        // SAFETY: just mapped, large enough, and aligned to far more.
        unsafe { chunk.write(header) };
        // Relaxed: statistics.
        self.chunks.fetch_add(1, Ordering::Relaxed);
        Some(chunk)
    }

    /// Bytes of address space in use. For statistics.
    pub(super) fn mapped_bytes(&self) -> usize {
        // Relaxed: statistics.
        self.chunks.load(Ordering::Relaxed) as usize * CHUNK_BYTES
    }

    /// Takes the lock for a fork.
    pub(super) fn acquire(&self) {
        self.state.acquire();
    }

    /// [`Pool::acquire`] in the child of a fork that ran no `prepare` handler. If a thread that
    /// does not exist here was changing the list, its chunks are lost: nothing is added to them any
    /// more.
    pub(super) fn recover(&self) {
        self.state.acquire_to_recover(State::recover);
    }

    /// Releases it.
    ///
    /// # Safety
    /// Taken by [`Pool::acquire`] in the thread that forked.
    pub(super) unsafe fn release(&self) {
        // SAFETY: the same contract.
        unsafe { self.state.release() };
    }
}

impl Chunk {
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn is_exhausted(&self) -> bool {
        self.free == 0 && self.fresh == self.address() + CHUNK_BYTES
    }

    /// Takes a unit from a chunk that is not exhausted.
    fn take(&mut self, unit_bytes: usize) -> usize {
        if self.free == 0 {
            self.fresh += unit_bytes;
            return self.fresh - unit_bytes;
        }
        let unit = self.free;
        // SAFETY: a free unit, which holds the address of the next one.
        self.free = unsafe { with_exposed_provenance_mut::<usize>(unit).read() };
        unit
    }
}

impl State {
    fn recover(&mut self) {
        *self = State { first: null_mut(), spare: 0, life: self.life + 1 };
    }

    /// # Safety
    /// The chunk is mapped and on no list.
    unsafe fn link(&mut self, chunk: *mut Chunk) {
        // SAFETY: mapped, and used under the lock only.
        let new = unsafe { &mut *chunk };
        new.life = self.life;
        (new.next, new.previous) = (self.first, null_mut());
        // SAFETY: null, or a chunk on the list, which is another one.
        if let Some(first) = unsafe { self.first.as_mut() } {
            first.previous = chunk;
        }
        self.first = chunk;
    }

    fn unlink(&mut self, chunk: &mut Chunk) {
        // SAFETY: null, or a chunk on the list, which is another one.
        match unsafe { chunk.previous.as_mut() } {
            Some(previous) => previous.next = chunk.next,
            None => self.first = chunk.next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { chunk.next.as_mut() } {
            next.previous = chunk.previous;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn units_are_distinct_and_chunks_go_back() {
        static POOL: Pool = Pool::new(4096);
        let mut units: Vec<_> = (0..1000).map(|_| POOL.take().unwrap()).collect();
        units.sort_unstable();
        assert!(units.windows(2).all(|pair| pair[1] - pair[0] >= 4096));
        assert!(units.iter().all(|unit| unit % 4096 == 0));
        let most = POOL.mapped_bytes();
        assert!(most >= 1000 * 4096);
        for unit in units {
            // SAFETY: taken above, once.
            unsafe { POOL.give(unit) };
        }
        assert_eq!(POOL.mapped_bytes(), SPARE_CHUNKS as usize * CHUNK_BYTES);
        // What came back is given out again.
        let unit = POOL.take().unwrap();
        assert_eq!(POOL.mapped_bytes(), SPARE_CHUNKS as usize * CHUNK_BYTES);
        // SAFETY: taken above.
        unsafe { POOL.give(unit) };
    }

    #[test]
    fn a_list_that_was_being_changed_is_given_up() {
        static POOL: Pool = Pool::new(4096);
        let old: Vec<_> = (0..40).map(|_| POOL.take().unwrap()).collect();
        {
            let mut state = POOL.state.lock();
            state.recover();
            assert!(state.first.is_null());
        }
        let new: Vec<_> = (0..40).map(|_| POOL.take().unwrap()).collect();
        assert!(new.iter().all(|unit| !old.contains(unit)));
        for unit in old.iter().chain(&new) {
            // SAFETY: taken above, once.
            unsafe { POOL.give(*unit) };
        }
        // Units of the abandoned list are not given out again.
        let again: Vec<_> = (0..40).map(|_| POOL.take().unwrap()).collect();
        assert!(again.iter().all(|unit| !old.contains(unit)));
        for unit in again {
            // SAFETY: taken above, once.
            unsafe { POOL.give(unit) };
        }
    }
}
