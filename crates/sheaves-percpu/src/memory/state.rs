//! The allocator of this process, and its lock.

use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::tsan;

use crate::dynamic::{Allocator, Config, Shape};
use crate::memory::Error;
use crate::memory::backing::{Rows, UNIT_BYTES};
use crate::memory::class::CLASSES;
use crate::memory::handle_map;
use crate::memory::pool::Pool;
use crate::word::{BLOCK_BYTES, Region};
use crate::{rows, slots};

pub(crate) struct State {
    allocator: Option<Allocator<Rows>>,
    pub(super) sheaves: Pool,
    /// Where the allocator's objects begin in a row. Objects before it are not reused, see
    /// [`State::recover`].
    pub(super) base: usize,
}

/// The memory lock. Taken before the slots lock.
pub(crate) static MEMORY: Lock<State> =
    Lock::new(State { allocator: None, sheaves: Pool::new(), base: BLOCK_BYTES });

/// True once the words of the caches are prepared in every block, present and future.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

#[inline]
pub(super) fn is_open() -> bool {
    // Acquire pairs with the Release in `start`.
    IS_OPEN.load(Ordering::Acquire)
}

impl State {
    /// Creates the allocator, once: opens the shared row and prepares the words of the caches.
    fn start(&mut self) -> Result<&mut Allocator<Rows>, Error> {
        if self.allocator.is_none() {
            self.allocator = Some(make(self.base)?);
            slots::prepare(Region::OWN, CLASSES);
            // Release pairs with the Acquire in `is_open`.
            IS_OPEN.store(true, Ordering::Release);
        }
        self.allocator.as_mut().ok_or(Error::NoMemory)
    }

    /// Allocates at least one object of a shape from the allocator; fills `offsets` from its start.
    pub(super) fn alloc(&mut self, shape: Shape, offsets: &mut [usize]) -> Result<usize, Error> {
        tsan::unseen(|| self.start()?.alloc_many(shape.size(), shape.align(), offsets))
    }

    /// Returns objects, which are zero in every row, to the allocator. Sorts the list.
    pub(super) fn free(&mut self, offsets: &mut [usize]) {
        let Some(allocator) = &mut self.allocator else { return };
        tsan::unseen(|| offsets.sort_unstable());
        let lost = offsets.partition_point(|offset| *offset < self.base);
        if let Err((offset, error)) = tsan::unseen(|| allocator.free_many(&offsets[lost..])) {
            let text = "per-CPU memory is corrupt: the object at offset";
            sheaves_sys::report::die(format_args!("{text} {offset:#x}: {error}"));
        }
        if allocator.balance_wanted() {
            allocator.balance();
        }
    }

    /// For a fork's child, when a thread that the child lacks held the lock. The allocator may be
    /// half changed, so a new one starts after everything that the old one may have handed out.
    /// Objects of the old one are not reused when they are freed. The pool's free sheaves are lost.
    pub(crate) fn recover(&mut self) {
        rows::recover_once();
        self.allocator = None;
        self.base = rows::committed_bytes().next_multiple_of(UNIT_BYTES);
        self.sheaves.recover();
    }

    pub(super) fn allocator(&mut self) -> Option<&mut Allocator<Rows>> {
        self.allocator.as_mut()
    }
}

/// Creates the allocator of the rows from offset `base` on. Under the memory lock, after the
/// engine's start.
fn make(base: usize) -> Result<Allocator<Rows>, Error> {
    let config = Config {
        unit_bytes: UNIT_BYTES,
        chunks_max: rows::row_bytes() / UNIT_BYTES,
        head_bytes: base,
    };
    // A limit on the address space can leave the rows without room for a chunk.
    let is_open = base < config.chunks_max * UNIT_BYTES && {
        let _slots = slots::SLOTS.lock();
        rows::open(rows::shared())
    };
    if !is_open {
        return Err(Error::NoMemory);
    }
    handle_map::set_starts();
    Allocator::new(Rows, config).ok_or(Error::NoMemory)
}
