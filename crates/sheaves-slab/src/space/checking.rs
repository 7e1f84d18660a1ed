//! How much is checked: of a process, determined once, when the window is started; of a cache, that
//! of the process or more.
//!
//! Only slow paths ask: the fast paths of a hardened process are the same instructions on other
//! words. The heap asks, too.

use core::sync::atomic::{AtomicU8, Ordering};

use sheaves_sys::options;

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Checking {
    /// Objects as they return to their slabs.
    Plain,
    /// Frees wait in a quarantine and are checked.
    Hardened,
    /// As hardened, and each free is checked at once. Every call takes a slow path.
    Debug,
}

/// How much is checked in the process, plus 1; 0 until it is determined.
static CHECKING: AtomicU8 = AtomicU8::new(0);

/// Determines how much is checked, the first time. Under the registry lock, or before there are
/// threads.
pub fn start() {
    // Relaxed: changes under the registry lock.
    if CHECKING.load(Ordering::Relaxed) != 0 {
        return;
    }
    options::read();
    let asked = options::HARDEN.asked();
    let checking = match asked.map_or(cfg!(feature = "harden"), |is_on| is_on == 1) {
        _ if options::DEBUG.is_on() => Checking::Debug,
        true => Checking::Hardened,
        false => Checking::Plain,
    };
    // Relaxed: read by threads that know a cache, which is published later.
    CHECKING.store(checking as u8 + 1, Ordering::Relaxed);
}

/// How much is checked in the process. Valid after [`start`], which creating a cache calls.
pub(crate) fn of_process() -> Checking {
    if is_debug() {
        Checking::Debug
    } else if is_hardened() {
        Checking::Hardened
    } else {
        Checking::Plain
    }
}

#[inline]
fn is_at_least(checking: Checking) -> bool {
    // Relaxed: constant once a cache exists. It is stored plus 1.
    CHECKING.load(Ordering::Relaxed) > checking as u8
}

/// True when frees wait in a quarantine and are checked: `SHEAVES_HARDEN`, `SHEAVES_DEBUG`, or the
/// feature `harden`. Valid after [`start`].
#[inline]
#[must_use]
pub fn is_hardened() -> bool {
    is_at_least(Checking::Hardened)
}

/// True when `SHEAVES_DEBUG` makes every cache a debug cache. Valid after [`start`].
#[inline]
#[must_use]
pub fn is_debug() -> bool {
    is_at_least(Checking::Debug)
}
