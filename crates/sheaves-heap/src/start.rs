//! Starts the heap, and creates the caches of the size classes, each when it is first used.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sheaves_slab::internal::{by_id, checking, sampling};
use sheaves_slab::raw::CacheError;
use sheaves_sys::{announce_when_loaded, fork, lock::Lock, report::Line};

use crate::classes::{self, EMPTY_BLOCKS, QUANTUM_BYTES, SIZES};
use crate::large;

/// Set once the heap has started.
#[unsafe(link_section = ".sheaves_load")]
static STARTED: AtomicBool = AtomicBool::new(false);
/// One bit for each class that exists.
static MADE: [AtomicU64; (EMPTY_BLOCKS + 1).div_ceil(64)] =
    [const { AtomicU64::new(0) }; (EMPTY_BLOCKS + 1).div_ceil(64)];
/// Serializes the creation of classes.
#[unsafe(link_section = ".sheaves_load")]
static MAKING: Lock<()> = Lock::new(());

/// Starts the heap unless it has started. False when memory is out; a later call tries again.
pub(crate) fn start() -> bool {
    // Acquire pairs with the Release below: the heap and the first class are visible.
    STARTED.load(Ordering::Acquire) || start_slow()
}

#[cold]
fn start_slow() -> bool {
    if !make(0) {
        return false;
    }
    large::register();
    // In debug mode the words of the main sheaves, which are vacant then, stay.
    if checking::is_hardened() && !checking::is_debug() {
        classes::harden();
    }
    sampling::on_switch(classes::draw_samples);
    // Release pairs with the Acquire in `start`.
    STARTED.store(true, Ordering::Release);
    classes::open_fast_path();
    true
}

/// Creates a class unless it exists. False when memory is out; a later call tries again.
pub(crate) fn make(class: usize) -> bool {
    // Acquire pairs with the Release below: the cache is visible.
    MADE[class / 64].load(Ordering::Acquire) & (1 << (class % 64)) != 0 || make_slow(class)
}

#[cold]
fn make_slow(class: usize) -> bool {
    let _making = MAKING.lock();
    let result = if class == EMPTY_BLOCKS {
        by_id::create_unreadable_class(class, "malloc-0")
    } else {
        let (size, align) = (SIZES[class] as usize, classes::align_of_class(class));
        let mut name = Line::new();
        let aligned = if align > QUANTUM_BYTES { "-aligned" } else { "" };
        let _ = write!(name, "malloc-{size}{aligned}");
        let name = core::str::from_utf8(name.as_bytes()).unwrap_or("malloc");
        by_id::create_class(class, name, size, align)
    };
    match result {
        // Another thread made it, perhaps one that is not in this child of a fork.
        Ok(_) | Err(CacheError::TooMany) => {}
        Err(_) => return false,
    }
    // Release pairs with the Acquire in `make`.
    MADE[class / 64].fetch_or(1 << (class % 64), Ordering::Release);
    true
}

static HANDLERS: fork::Handlers =
    fork::Handlers { prepare: lock_all, parent: unlock_all, child: unlock_all };
announce_when_loaded!(Heap, &HANDLERS);

fn lock_all() {
    MAKING.acquire();
    large::TABLE.acquire();
}

fn unlock_all() {
    // SAFETY: taken in `lock_all` by the thread that forked.
    unsafe { large::TABLE.release() };
    // SAFETY: as above.
    unsafe { MAKING.release() };
}
