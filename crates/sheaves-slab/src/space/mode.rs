//! How much is checked: plain, hardened or debug. Determined once, when the window is started.
//!
//! Used by all of this crate and by the heap. Only slow paths ask: the fast paths of a hardened
//! process are the same instructions on other words.

use core::sync::atomic::{AtomicU8, Ordering};

use sheaves_sys::options;

const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const HARDENED: u8 = 2;
const DEBUG: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Determines the mode, the first time. Under the registry lock, or before there are threads.
pub fn start() {
    // Relaxed: changes under the registry lock.
    if MODE.load(Ordering::Relaxed) != UNKNOWN {
        return;
    }
    options::read();
    let asked = options::HARDEN.asked();
    let is_hardened = asked.map_or(cfg!(feature = "harden"), |is_on| is_on == 1);
    let mode = match (options::DEBUG.is_on(), is_hardened) {
        (true, _) => DEBUG,
        (false, true) => HARDENED,
        (false, false) => PLAIN,
    };
    // Relaxed: read by threads that know a cache, which is published later.
    MODE.store(mode, Ordering::Relaxed);
}

/// True when frees wait in a quarantine and are checked: `SHEAVES_HARDEN`, `SHEAVES_DEBUG`, or the
/// feature `harden`. Valid after [`start`], which creating a cache calls.
#[inline]
#[must_use]
pub fn is_hardened() -> bool {
    // Relaxed: constant once a cache exists.
    MODE.load(Ordering::Relaxed) >= HARDENED
}

/// True when `SHEAVES_DEBUG` makes every cache a debug cache. Valid once a cache was created.
#[inline]
#[must_use]
pub fn is_debug() -> bool {
    // Relaxed: constant once a cache exists.
    MODE.load(Ordering::Relaxed) == DEBUG
}
