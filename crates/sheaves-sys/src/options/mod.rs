//! Options from the environment: all that there are, in one table, read once.
//!
//! All options are named `SHEAVES_*`; `docs/options.md` says what they mean. [`read`] sets them
//! when the object is loaded, or at the first use if that comes before. After that nothing looks at
//! the environment, which the program may change at any time: an option is a load of a number.
//!
//! In secure-execution mode (`AT_SECURE`: setuid, setgid or file capabilities) the environment is
//! not trusted and every option counts as absent. So does one whose value is empty or wrong.
//!
//! From the bottom up: `environment`, `opt` (one option), `complaints` (what is reported of wrong
//! ones).

mod complaints;
mod environment;
mod opt;

use core::sync::atomic::{AtomicU32, Ordering};

use crate::topology::CPUS_MAX;
use crate::{errno, process};

pub use complaints::complain;
use opt::{FLAG, Kind, LEVEL, PathPlace, UNSET};
pub use opt::{Limit, NEVER, Opt};

/// Defines each option: its static, its name, what its value may be, and the value when unset.
macro_rules! options {
    ($($(#[$doc:meta])* $option:ident = $name:literal, $kind:expr, $default:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(link_section = ".sheaves_load")]
            pub static $option: Opt = Opt::new($name, $kind, $default);
        )*
        static TABLE: &[&Opt] = &[$(&$option),*];
    };
}

/// The highest value of [`RCU_STALL_MS`]: a day.
pub const RCU_STALL_MS_MAX: u64 = 86_400_000;
/// The lowest and the highest value of [`PROF`].
pub const PROF_BYTES: (u64, u64) = (1 << 10, 1 << 40);
/// The highest N of [`GUARD`].
pub const GUARD_ONE_IN_MAX: u64 = 1 << 20;

static STATS_PATH: PathPlace = PathPlace::new();
static PROF_PATH: PathPlace = PathPlace::new();

options! {
    /// How transactions are carried out.
    ENGINE =
        "SHEAVES_ENGINE",
        Kind::Words(&[("auto", 0), ("rseq", 1), ("rseq-cpu", 2), ("portable", 3)]), 0;
    /// Number of slots of the portable engine.
    SLOTS = "SHEAVES_SLOTS", Kind::Number(1, CPUS_MAX as u64), UNSET;
    /// Which parts of the heap ask for huge pages.
    HUGE_PAGES =
        "SHEAVES_HUGE_PAGES", Kind::Words(&[("never", 0), ("auto", 1), ("always", 2)]), 1;
    /// Milliseconds for which unused memory is kept, or [`NEVER`].
    DECAY_MS = "SHEAVES_DECAY_MS", Kind::NumberOrNever(3_600_000), 1000;
    /// The limit of the heap.
    LIMIT = "SHEAVES_LIMIT", Kind::Limit, UNSET;
    /// Mean bytes from one sample of the heap to the next.
    PROF = "SHEAVES_PROF", Kind::Number(PROF_BYTES.0, PROF_BYTES.1), UNSET;
    /// The N of `1/N`: one in N samples is guarded. 0 for none.
    GUARD = "SHEAVES_GUARD", Kind::Fraction(GUARD_ONE_IN_MAX), 0;
    /// The level of hardened mode; 0 for none.
    HARDEN = "SHEAVES_HARDEN", Kind::Words(LEVEL), UNSET;
    /// Every cache is a debug cache.
    DEBUG = "SHEAVES_DEBUG", Kind::Words(FLAG), 0;
    /// The process answers tools.
    CONTROL = "SHEAVES_CONTROL", Kind::Words(FLAG), 1;
    /// Whether all grace periods are normal, or expedited.
    RCU = "SHEAVES_RCU", Kind::Words(&[("normal", 1), ("expedited", 2)]), UNSET;
    /// Age of a grace period at which it is reported, 0 for never. The program may set another.
    RCU_STALL_MS = "SHEAVES_RCU_STALL_MS", Kind::Number(0, RCU_STALL_MS_MAX), 1000;
    /// Readers fence.
    RCU_FENCES = "SHEAVES_RCU_FENCES", Kind::Words(FLAG), 0;
    /// Threads that run what was deferred; 2 for one per CPU.
    RCU_RECLAIMERS =
        "SHEAVES_RCU_RECLAIMERS", Kind::Words(&[("0", 0), ("1", 1), ("slots", 2)]), 1;
    /// How long something deferred waits for a grace period to be started.
    RCU_AGE_MS = "SHEAVES_RCU_AGE_MS", Kind::Number(1, 60_000), 20;
    /// Deferred bytes from which on threads that defer help.
    RCU_BYTES = "SHEAVES_RCU_BYTES", Kind::Number(4096, i64::MAX as u64), 256 << 20;
    /// Statistics at exit, or a line at the start.
    STATS =
        "SHEAVES_STATS",
        Kind::Words(&[("0", 0), ("1", 1), ("text", 1), ("json", 2), ("start", 3)]), 0;
    /// The file of the statistics.
    STATS_FILE = "SHEAVES_STATS_FILE", Kind::Path(&STATS_PATH), UNSET;
    /// The file of the heap profile.
    PROF_FILE = "SHEAVES_PROF_FILE", Kind::Path(&PROF_PATH), UNSET;
    /// `dlopen` leaves `RTLD_DEEPBIND` alone.
    DEEPBIND = "SHEAVES_DEEPBIND", Kind::Words(FLAG), 0;
    /// The preload object. Only the command reads it.
    PRELOAD = "SHEAVES_PRELOAD", Kind::NotRead, UNSET;
    /// What was reported in this tree of processes. Only [`complain`] reads it.
    REPORTED = "SHEAVES_REPORTED", Kind::NotRead, UNSET;
}

/// Whether the environment was read.
///
/// | value | meaning | written by |
/// |---|---|---|
/// | `UNREAD` | options have their defaults | [`read`], where it finds no environment |
/// | `READING` | a thread reads it | [`read`] |
/// | `READ` | options have their values | [`read`] |
#[unsafe(link_section = ".sheaves_load")]
static STATE: AtomicU32 = AtomicU32::new(UNREAD);
const UNREAD: u32 = 0;
const READING: u32 = 1;
const READ: u32 = 2;

/// Reads all options, once: later calls are a load. Never allocates. Called when the object is
/// loaded, and by what other constructors may use before: no other thread sets the environment.
#[inline]
pub fn read() {
    // Acquire pairs with the Release in `read_slow`: the values.
    if STATE.load(Ordering::Acquire) != READ {
        read_slow();
    }
}

#[cold]
#[unsafe(link_section = ".text.sheaves_load")]
fn read_slow() {
    // Relaxed, both: a thread that fails uses the values that there are.
    let (old, new) = (Ordering::Relaxed, Ordering::Relaxed);
    if STATE.compare_exchange(UNREAD, READING, old, new).is_err() {
        return;
    }
    let is_read = process::is_secure() || errno::preserve(read_environment);
    // Release pairs with the Acquire in `read`.
    STATE.store(if is_read { READ } else { UNREAD }, Ordering::Release);
}

/// False where there is no environment to read.
fn read_environment() -> bool {
    // The first of several variables of one name counts, as for `getenv`.
    let mut seen = 0_u64;
    environment::each(|name, value| {
        if let Some(index) = TABLE.iter().position(|option| option.name() == name)
            && seen & (1 << index) == 0
        {
            seen |= 1 << index;
            TABLE[index].take(value);
        }
    })
}

const _: () = assert!(TABLE.len() <= u64::BITS as usize);

fn load() {
    read();
    if !process::is_secure() {
        complaints::report_wrong(TABLE);
    }
}

crate::run_when_loaded!(load());

#[cfg(test)]
#[path = "../../tests/unit/options.rs"]
mod tests;
