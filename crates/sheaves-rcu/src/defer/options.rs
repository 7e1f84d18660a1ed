//! The environment variables of deferred reclamation, which `docs/options.md` documents.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sheaves_sys::{env, report};

/// How long something may be pending before it is sealed, in milliseconds.
const AGE_MS: usize = 20;
const AGE_MS_MAX: usize = 60_000;

/// The limits of the pressure levels. A grace period interrupts each CPU that runs the process,
/// which takes 5 to 10 us in a virtual machine. For 4 MiB, 64 Ki objects of 64 bytes or 1,000
/// pages, that is negligible, and a few times 4 MiB still fit into the last-level cache. 32 MiB do
/// not, so grace periods are expedited. A program of this kind can spare 256 MiB for a moment.
const LIMITS: [u64; 3] = [4 << 20, 32 << 20, 256 << 20];
const LIMIT_MIN: usize = 4096;

/// The value of [`RECLAIMERS`] for `slots`.
const SLOTS: u64 = 2;

/// Indexes of [`VALUES`].
const AGE: usize = 0;
const RECLAIMERS: usize = 1;
const READS_PRESSURE: usize = 2;
const SOFT: usize = 3;

/// The options. Written by each thread that has read the environment; all read the same.
static VALUES: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];
/// Whether they are written.
static ARE_READ: AtomicBool = AtomicBool::new(false);

#[inline]
fn value(index: usize) -> u64 {
    // Acquire pairs with the Release in `read`: the values are stored.
    if !ARE_READ.load(Ordering::Acquire) {
        read();
    }
    // Relaxed: constant after it was published.
    VALUES[index].load(Ordering::Relaxed)
}

#[cold]
fn read() {
    const RECLAIMER_KINDS: &[(&str, u64)] = &[("0", 0), ("1", 1), ("slots", SLOTS)];
    const NAMES: [&str; 3] =
        ["SHEAVES_RCU_SOFT_BYTES", "SHEAVES_RCU_HIGH_BYTES", "SHEAVES_RCU_HARD_BYTES"];
    let age_ms = env::number("SHEAVES_RCU_AGE_MS", 1, AGE_MS_MAX).unwrap_or(AGE_MS) as u64;
    let reclaimers = env::choice("SHEAVES_RCU_RECLAIMERS", RECLAIMER_KINDS).unwrap_or(1);
    let reads_pressure = u64::from(env::flag("SHEAVES_RCU_PRESSURE"));
    let mut limits = LIMITS;
    for (limit, name) in limits.iter_mut().zip(NAMES) {
        *limit = env::number(name, LIMIT_MIN, isize::MAX as usize).map_or(*limit, |is| is as u64);
    }
    if !limits.is_sorted() {
        report::report(format_args!("SHEAVES_RCU_*_BYTES are ignored: {limits:?} do not ascend"));
        limits = LIMITS;
    }
    let [soft, high, hard] = limits;
    for (value, read) in VALUES.iter().zip([age_ms, reclaimers, reads_pressure, soft, high, hard]) {
        // Relaxed: published by the Release below.
        value.store(read, Ordering::Relaxed);
    }
    // Release pairs with the Acquire in `value`.
    ARE_READ.store(true, Ordering::Release);
}

/// How long something may be pending before it is sealed, in milliseconds.
pub(super) fn age_ms() -> u64 {
    value(AGE)
}

/// True if a reclaimer thread may be started.
pub(super) fn has_reclaimer() -> bool {
    value(RECLAIMERS) != 0
}

/// True if callbacks run in worker threads, one per CPU.
pub(super) fn has_workers() -> bool {
    value(RECLAIMERS) == SLOTS
}

/// True if the system's memory pressure is read.
pub(super) fn looks_at_pressure() -> bool {
    value(READS_PRESSURE) != 0
}

/// The bytes from which on the pressure is soft, high, hard.
pub(super) fn limits() -> [u64; 3] {
    [SOFT, SOFT + 1, SOFT + 2].map(value)
}
