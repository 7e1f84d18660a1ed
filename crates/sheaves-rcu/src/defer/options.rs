//! The environment variables of deferred reclamation, which `docs/options.md` documents.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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
const SLOTS: usize = 2;

/// Values of [`STATE`].
const UNKNOWN: usize = 0;
const READ: usize = 1;

/// Whether the numbers below are from the environment. Written by each thread that has read them;
/// all read the same.
static STATE: AtomicUsize = AtomicUsize::new(UNKNOWN);
static AGE: AtomicUsize = AtomicUsize::new(AGE_MS);
static RECLAIMERS: AtomicUsize = AtomicUsize::new(1);
static PRESSURE: AtomicUsize = AtomicUsize::new(0);
static BYTES: [AtomicU64; 3] =
    [AtomicU64::new(LIMITS[0]), AtomicU64::new(LIMITS[1]), AtomicU64::new(LIMITS[2])];

#[inline]
fn read() {
    // Acquire pairs with the Release in `read_slow`: the numbers are stored.
    if STATE.load(Ordering::Acquire) == UNKNOWN {
        read_slow();
    }
}

#[cold]
fn read_slow() {
    // Relaxed, all: published by the Release below.
    AGE.store(
        env::number("SHEAVES_RCU_AGE_MS", 1, AGE_MS_MAX).unwrap_or(AGE_MS),
        Ordering::Relaxed,
    );
    const THREADS: &[(&str, usize)] = &[("0", 0), ("1", 1), ("slots", SLOTS)];
    let threads = env::choice("SHEAVES_RCU_RECLAIMERS", THREADS).unwrap_or(1);
    RECLAIMERS.store(threads, Ordering::Relaxed);
    PRESSURE.store(usize::from(env::flag("SHEAVES_RCU_PRESSURE")), Ordering::Relaxed);
    const NAMES: [&str; 3] =
        ["SHEAVES_RCU_SOFT_BYTES", "SHEAVES_RCU_HIGH_BYTES", "SHEAVES_RCU_HARD_BYTES"];
    let mut limits = LIMITS;
    for (limit, name) in limits.iter_mut().zip(NAMES) {
        *limit = env::number(name, LIMIT_MIN, isize::MAX as usize).map_or(*limit, |is| is as u64);
    }
    if !limits.is_sorted() {
        report::report(format_args!("SHEAVES_RCU_*_BYTES are ignored: {limits:?} do not ascend"));
        limits = LIMITS;
    }
    for (bytes, limit) in BYTES.iter().zip(limits) {
        // Relaxed: as above.
        bytes.store(limit, Ordering::Relaxed);
    }
    // Release pairs with the Acquire in `read`.
    STATE.store(READ, Ordering::Release);
}

/// How long something may be pending before it is sealed, in milliseconds.
pub(super) fn age_ms() -> u64 {
    read();
    // Relaxed, here and below: constant after it was published.
    AGE.load(Ordering::Relaxed) as u64
}

/// True if a reclaimer thread may be started.
pub(super) fn has_reclaimer() -> bool {
    read();
    // Relaxed: as above.
    RECLAIMERS.load(Ordering::Relaxed) != 0
}

/// True if callbacks run in worker threads, one per CPU.
pub(super) fn has_workers() -> bool {
    read();
    // Relaxed: as above.
    RECLAIMERS.load(Ordering::Relaxed) == SLOTS
}

/// True if the system's memory pressure is read.
pub(super) fn looks_at_pressure() -> bool {
    read();
    // Relaxed: as above.
    PRESSURE.load(Ordering::Relaxed) != 0
}

/// The bytes from which on the pressure is soft, high, hard.
pub(super) fn limits() -> [u64; 3] {
    read();
    // Relaxed: as above.
    core::array::from_fn(|limit| BYTES[limit].load(Ordering::Relaxed))
}
