//! The environment variables that `docs/options.md` documents for this crate, except
//! `SHEAVES_RCU_FENCES`, which `reader::mode` reads.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::{env, report};

/// A number that is read from the environment at its first use.
pub(crate) struct Setting(AtomicU64);

/// The value of a [`Setting`] that was not read yet.
const UNREAD: u64 = u64::MAX;

impl Setting {
    pub(crate) const fn unread() -> Setting {
        Setting(AtomicU64::new(UNREAD))
    }

    /// The value; it comes from `read` if there is none yet. Async-signal-safe if `read` is.
    #[inline]
    pub(crate) fn get(&self, read: impl FnOnce() -> u64) -> u64 {
        // Relaxed, all of this type: a number; nothing is published through it.
        let known = self.0.load(Ordering::Relaxed);
        if known != UNREAD {
            return known;
        }
        let found = read();
        let first = self.0.compare_exchange(UNREAD, found, Ordering::Relaxed, Ordering::Relaxed);
        first.map_or_else(|known| known, |_| found)
    }

    pub(crate) fn set(&self, value: u64) {
        // Relaxed: as in `get`.
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Values of [`policy`].
pub(crate) const AS_ASKED: u64 = 0;
pub(crate) const ALWAYS_NORMAL: u64 = 1;
pub(crate) const ALWAYS_EXPEDITED: u64 = 2;

/// Whether all grace periods are expedited, or none, or each as its caller asks.
pub(crate) fn policy() -> u64 {
    const WORDS: &[(&str, u64)] = &[("normal", ALWAYS_NORMAL), ("expedited", ALWAYS_EXPEDITED)];
    static POLICY: Setting = Setting::unread();
    POLICY.get(|| env::choice("SHEAVES_RCU", WORDS).unwrap_or(AS_ASKED))
}

/// How long something may be pending before it is sealed, in milliseconds.
pub(crate) fn age_ms() -> u64 {
    static AGE: Setting = Setting::unread();
    AGE.get(|| env::number("SHEAVES_RCU_AGE_MS", 1, 60_000).unwrap_or(20) as u64)
}

/// How long memory lies unused before it returns to the kernel, in milliseconds; `None` for ever.
#[must_use]
pub fn decay_ms() -> Option<u64> {
    const NEVER: usize = usize::MAX;
    static DECAY: Setting = Setting::unread();
    let read = || match env::number_or_never("SHEAVES_DECAY_MS", 3_600_000).unwrap_or(1000) {
        NEVER => UNREAD - 1,
        decay_ms => decay_ms as u64,
    };
    Some(DECAY.get(read)).filter(|decay_ms| *decay_ms != UNREAD - 1)
}

/// The value of [`reclaimers`] for `slots`.
pub(crate) const SLOTS: u64 = 2;

/// 0 if no reclaimer may be started, [`SLOTS`] if callbacks run in worker threads, one per CPU.
pub(crate) fn reclaimers() -> u64 {
    const WORDS: &[(&str, u64)] = &[("0", 0), ("1", 1), ("slots", SLOTS)];
    static RECLAIMERS: Setting = Setting::unread();
    RECLAIMERS.get(|| env::choice("SHEAVES_RCU_RECLAIMERS", WORDS).unwrap_or(1))
}

/// True if the system's memory pressure is read.
pub(crate) fn reads_psi() -> bool {
    static READS: Setting = Setting::unread();
    READS.get(|| u64::from(env::flag("SHEAVES_RCU_PRESSURE"))) != 0
}

/// The bytes from which on the pressure is soft, high, hard.
pub(crate) fn limits() -> [u64; 3] {
    static LIMITS: [Setting; 3] = [const { Setting::unread() }; 3];
    let known = LIMITS.each_ref().map(|limit| limit.get(|| UNREAD));
    if !known.contains(&UNREAD) {
        return known;
    }
    let found = read_limits();
    LIMITS.iter().zip(found).for_each(|(limit, bytes)| limit.set(bytes));
    found
}

/// A grace period interrupts each CPU that runs the process, which takes 5 to 10 us in a virtual
/// machine. For 4 MiB, 64 Ki objects of 64 bytes or 1,000 pages, that is negligible, and a few
/// times 4 MiB still fit into the last-level cache. 32 MiB do not, so grace periods are expedited.
/// A program of this kind can spare 256 MiB for a moment.
#[cold]
fn read_limits() -> [u64; 3] {
    const DEFAULTS: [u64; 3] = [4 << 20, 32 << 20, 256 << 20];
    const NAMES: [&str; 3] =
        ["SHEAVES_RCU_SOFT_BYTES", "SHEAVES_RCU_HIGH_BYTES", "SHEAVES_RCU_HARD_BYTES"];
    let mut limits = DEFAULTS;
    for (limit, name) in limits.iter_mut().zip(NAMES) {
        *limit = env::number(name, 4096, isize::MAX as usize).map_or(*limit, |bytes| bytes as u64);
    }
    if !limits.is_sorted() {
        report::report(format_args!("SHEAVES_RCU_*_BYTES are ignored: {limits:?} do not ascend"));
        limits = DEFAULTS;
    }
    limits
}
