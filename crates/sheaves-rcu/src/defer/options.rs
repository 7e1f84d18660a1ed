//! What the environment says about deferring; the options are in `docs/options.md`.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::{env, report};

/// How long something waits before it is sealed, in milliseconds.
const AGE_MS: usize = 20;
const AGE_MS_MAX: usize = 60_000;

/// Where the pressure begins. A grace period interrupts each processor that runs the process, 5 to
/// 10 us in a virtual machine: for 4 MiB, which are 64 Ki objects of 64 bytes or 1,000 pages, that
/// is nothing, and a few of these are in the last-level cache still. With 32 MiB they are not, so
/// it pays to be quick. 256 MiB are what a program of this kind can do without for a moment.
const LIMITS: [u64; 3] = [4 << 20, 32 << 20, 256 << 20];
const LIMIT_MIN: usize = 4096;

/// What [`RECLAIMERS`] is for `slots`.
const SLOTS: usize = 2;

/// States of [`STATE`].
const UNKNOWN: usize = 0;
const READ: usize = 1;

/// Are the numbers below those of the environment? Written by whoever has read them; all who do
/// read the same.
static STATE: AtomicUsize = AtomicUsize::new(UNKNOWN);
static AGE: AtomicUsize = AtomicUsize::new(AGE_MS);
static RECLAIMERS: AtomicUsize = AtomicUsize::new(1);
static PRESSURE: AtomicUsize = AtomicUsize::new(0);
static BYTES: [AtomicU64; 3] =
    [AtomicU64::new(LIMITS[0]), AtomicU64::new(LIMITS[1]), AtomicU64::new(LIMITS[2])];

#[inline]
fn read() {
    // Acquire pairs with the Release in `read_slow`: the numbers are there.
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
    for (place, limit) in BYTES.iter().zip(limits) {
        // Relaxed: as above.
        place.store(limit, Ordering::Relaxed);
    }
    // Release pairs with the Acquire in `read`.
    STATE.store(READ, Ordering::Release);
}

/// How long something waits before it is sealed, in milliseconds.
pub(super) fn age_ms() -> u64 {
    read();
    // Relaxed, here and below: constant since it was published.
    AGE.load(Ordering::Relaxed) as u64
}

/// May there be a thread?
pub(super) fn has_reclaimer() -> bool {
    read();
    // Relaxed: as above.
    RECLAIMERS.load(Ordering::Relaxed) != 0
}

/// Are calls to be run by a thread for each processor, beside the one that there is?
pub(super) fn has_workers() -> bool {
    read();
    // Relaxed: as above.
    RECLAIMERS.load(Ordering::Relaxed) == SLOTS
}

/// Is the system's memory pressure to be looked at?
pub(super) fn looks_at_pressure() -> bool {
    read();
    // Relaxed: as above.
    PRESSURE.load(Ordering::Relaxed) != 0
}

/// Above which bytes the pressure is soft, high, hard.
pub(super) fn limits() -> [u64; 3] {
    read();
    // Relaxed: as above.
    core::array::from_fn(|limit| BYTES[limit].load(Ordering::Relaxed))
}
