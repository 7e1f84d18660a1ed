//! How much is checked: of a process, determined once, when the window is started; of a cache, that
//! of the process or more.
//!
//! Only slow paths ask: the fast paths of a hardened process are the same instructions on other
//! words. The heap asks, too.

use core::sync::atomic::{AtomicU8, Ordering};

use sheaves_sys::options;

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Checking {
    /// Objects as they return to their slabs.
    Plain,
    /// Frees wait in a quarantine and are checked.
    Hardened,
    /// Level 2: as hardened, and each free checks what is right behind the requested bytes. Every
    /// call takes a slow path.
    Exact,
    /// As level 2, and deferred frees are checked, too. What was freed holds a pattern.
    Debug,
}

/// How much is checked in the process, plus 1; 0 until it is determined.
#[unsafe(link_section = ".sheaves_load")]
static CHECKING: AtomicU8 = AtomicU8::new(0);

/// Determines how much is checked, the first time. Under the registry lock, or before there are
/// threads.
pub fn start() {
    // Relaxed: changes under the registry lock.
    if CHECKING.load(Ordering::Relaxed) != 0 {
        return;
    }
    options::read();
    let checking = match options::HARDEN.asked().unwrap_or(cfg!(feature = "harden").into()) {
        _ if options::DEBUG.is_on() => Checking::Debug,
        0 => Checking::Plain,
        1 => Checking::Hardened,
        _ => Checking::Exact,
    };
    // Relaxed: read by threads that know a cache, which is published later.
    CHECKING.store(checking as u8 + 1, Ordering::Relaxed);
}

/// How much is checked in the process. Valid after [`start`], which creating a cache calls.
pub(crate) fn of_process() -> Checking {
    let levels = [Checking::Debug, Checking::Exact, Checking::Hardened];
    levels.into_iter().find(|checking| is_at_least(*checking)).unwrap_or(Checking::Plain)
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

/// True at level 2 and in debug mode: `SHEAVES_HARDEN=2`, or `SHEAVES_DEBUG`. Valid after
/// [`start`].
#[inline]
#[must_use]
pub fn is_exact() -> bool {
    is_at_least(Checking::Exact)
}

/// True when `SHEAVES_DEBUG` makes every cache a debug cache. Valid after [`start`].
#[inline]
#[must_use]
pub fn is_debug() -> bool {
    is_at_least(Checking::Debug)
}
