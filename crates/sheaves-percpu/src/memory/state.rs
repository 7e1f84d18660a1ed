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
}

/// The memory lock. Taken before the slots lock.
pub(crate) static MEMORY: Lock<State> = Lock::new(State { allocator: None, sheaves: Pool::new() });

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
            self.allocator = Some(make()?);
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
        if let Err((offset, error)) = tsan::unseen(|| allocator.free_many(offsets)) {
            let text = "per-CPU memory is corrupt: the object at offset";
            sheaves_sys::report::die(format_args!("{text} {offset:#x}: {error}"));
        }
        if allocator.balance_wanted() {
            allocator.balance();
        }
    }

    pub(super) fn allocator(&mut self) -> Option<&mut Allocator<Rows>> {
        self.allocator.as_mut()
    }
}

/// Creates the allocator of the rows, behind the blocks. Under the memory lock, after the
/// engine's start.
fn make() -> Result<Allocator<Rows>, Error> {
    let config = Config {
        unit_bytes: UNIT_BYTES,
        chunks_max: rows::row_bytes() / UNIT_BYTES,
        head_bytes: BLOCK_BYTES,
    };
    // A limit on the address space can leave the rows without room for a chunk.
    let is_open = BLOCK_BYTES < config.chunks_max * UNIT_BYTES && {
        let _slots = slots::SLOTS.lock();
        rows::open(rows::shared())
    };
    if !is_open {
        return Err(Error::NoMemory);
    }
    handle_map::set_starts();
    Allocator::new(Rows, config).ok_or(Error::NoMemory)
}
