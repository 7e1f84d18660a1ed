//! Fork handlers of other libraries: they allocate. Some are registered before those of Sheaves, so
//! that they run while its locks are held, and some after.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sheaves::rcu::synchronize;
use sheaves_sys::fork::prepared_count;

use crate::work::{self, Dice};

/// Blocks that each handler allocates: more than the sheaves of a slot hold, of many classes.
const BLOCKS: usize = 100;

/// True when the handlers must allocate.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Number of forks that Sheaves had prepared when a fork began.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// Forks while the handlers allocate.
pub(crate) fn beside(fork: impl FnOnce() -> i32) -> i32 {
    // Relaxed, here and below: the thread that forks runs the handlers.
    IS_ON.store(true, Ordering::Relaxed);
    let child = fork();
    IS_ON.store(false, Ordering::Relaxed);
    child
}

fn is_on() -> bool {
    // Relaxed: as in `beside`.
    IS_ON.load(Ordering::Relaxed)
}

fn allocate() {
    if is_on() {
        work::heap(&mut Dice::new(prepared_count() as u64), BLOCKS);
    }
}

extern "C" fn allocate_outside() {
    // Relaxed: as in `beside`.
    BEFORE.store(prepared_count(), Ordering::Relaxed);
    allocate();
}

extern "C" fn allocate_inside() {
    // Sheaves has prepared for this fork: the order is as intended.
    // Relaxed: as in `beside`.
    work::check(!is_on() || prepared_count() == BEFORE.load(Ordering::Relaxed) + 1);
    allocate();
}

extern "C" fn allocate_after() {
    allocate();
}

/// The child waits for no thread of the parent, whichever handler runs first.
extern "C" fn allocate_in_child() {
    allocate();
    work::check(!is_on() || synchronize().is_ok());
}

fn register(prepare: extern "C" fn()) {
    let [prepare, parent, child]: [unsafe extern "C" fn(); 3] =
        [prepare, allocate_after, allocate_in_child];
    // SAFETY: functions of this program.
    let status = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    assert_eq!(status, 0);
}

/// Registers the handlers that run first before a fork, and last after it.
pub(crate) fn register_late() {
    register(allocate_outside);
}

extern "C" fn register_early() {
    register(allocate_inside);
}

/// Runs before the constructors without a number, such as that of Sheaves.
#[used]
#[unsafe(link_section = ".init_array.00101")]
static EARLY: extern "C" fn() = register_early;
