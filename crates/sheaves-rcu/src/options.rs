//! The options of this crate that mean more than a number; those that do not are read where they
//! are used. `docs/options.md` documents all of them.

use sheaves_sys::options::{self, NEVER};

/// How long something may be pending before it is sealed, in milliseconds.
pub(crate) fn age_ms() -> u64 {
    options::RCU_AGE_MS.get()
}

/// How long memory lies unused before it returns to the kernel, in milliseconds; `None` for ever.
#[must_use]
pub fn decay_ms() -> Option<u64> {
    Some(options::DECAY_MS.get()).filter(|decay_ms| *decay_ms != NEVER)
}

/// The value of [`reclaimers`] for `slots`.
pub(crate) const SLOTS: u64 = 2;

/// 0 if no reclaimer may be started, [`SLOTS`] if callbacks run in worker threads, one per CPU.
pub(crate) fn reclaimers() -> u64 {
    options::RCU_RECLAIMERS.get()
}

/// The bytes from which on the pressure is soft, high, hard.
///
/// A grace period interrupts each CPU that runs the process, which takes 5 to 10 us in a virtual
/// machine. For 4 MiB, 64 Ki objects of 64 bytes or 1,000 pages, that is negligible, and a few
/// times 4 MiB still fit into the last-level cache. 32 MiB do not, so grace periods are expedited.
/// A program of this kind can spare 256 MiB for a moment.
pub(crate) fn limits() -> [u64; 3] {
    let hard = options::RCU_BYTES.get();
    [hard / 64, hard / 8, hard]
}
