//! Creates the caches of the size classes, once.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_slab::raw::{CacheError, by_id};
use sheaves_slab::registry;
use sheaves_sys::{announce_when_loaded, fork, lock::Lock, report::Line};

use crate::classes::{self, CLASSES, QUANTUM_BYTES, SIZES};
use crate::huge;

/// Set when all classes exist.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Set before it if `SHEAVES_DEBUG` asks for checks; see [`crate::redzone`].
static DEBUG: AtomicBool = AtomicBool::new(false);
/// Serializes the creation; counts the classes that exist.
static MAKING: Lock<usize> = Lock::new(0);

/// Creates the size classes unless they exist. False when memory is out; a later call tries again.
pub(crate) fn start() -> bool {
    // Acquire pairs with the Release below: the caches are visible.
    STARTED.load(Ordering::Acquire) || start_slow()
}

#[cold]
fn start_slow() -> bool {
    let mut made = MAKING.lock();
    while *made < CLASSES {
        let (size, align) = (SIZES[*made] as usize, classes::align_of_class(*made));
        let mut name = Line::new();
        let aligned = if align > QUANTUM_BYTES { "-aligned" } else { "" };
        let _ = write!(name, "malloc-{size}{aligned}");
        let name = core::str::from_utf8(name.as_bytes()).unwrap_or("malloc");
        match by_id::create_class(*made, name, size, align) {
            // It was made by a thread that is not in this child of a fork.
            Ok(_) | Err(CacheError::TooMany) => {}
            Err(_) => return false,
        }
        *made += 1;
    }
    // Relaxed: published by the Release below.
    DEBUG.store(registry::is_debug(), Ordering::Relaxed);
    // Release pairs with the Acquire in `start`.
    STARTED.store(true, Ordering::Release);
    classes::open_fast_path();
    true
}

/// True when every block has a red zone and every free is checked.
#[inline]
pub(crate) fn is_debug() -> bool {
    // Relaxed: callers have called `start`.
    DEBUG.load(Ordering::Relaxed)
}

static HANDLERS: fork::Handlers =
    fork::Handlers { prepare: lock_all, parent: unlock_all, child: unlock_all, recover };
announce_when_loaded!(Heap, &HANDLERS);

fn lock_all() {
    MAKING.acquire();
    huge::TABLE.acquire();
}

/// The same in a child whose fork has not prepared.
fn recover() {
    huge::recover();
    // The number may be one too low, for which `start_slow` provides.
    MAKING.acquire();
}

fn unlock_all() {
    // SAFETY: taken in `lock_all` by the thread that forked.
    unsafe { huge::TABLE.release() };
    // SAFETY: as above.
    unsafe { MAKING.release() };
}
