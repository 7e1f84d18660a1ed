//! The choice of the engine, made once.
//!
//! The options `SHEAVES_ENGINE`, `SHEAVES_SLOT` and `SHEAVES_SLOTS` are in `docs/options.md`.
//!
//! Reasons for the portable engine: asked for; another architecture; rseq refused (old kernel,
//! seccomp, emulator). libc's registration is used where there is one; otherwise every thread
//! registers its own area the first time it comes by.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::{env, membarrier, rseq, topology};

use crate::area;

/// Which engine carries out transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// [`start`] has not run: every transaction refuses.
    NotStarted = 0,
    /// Restartable sequences.
    Rseq = 1,
    /// Atomic exchange on virtual slots.
    Portable = 2,
}

/// What numbers the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotKind {
    /// The kernel's concurrency id (`mm_cid`): as many slots as threads run at once.
    ConcurrencyId = 0,
    /// The processor number.
    Processor = 1,
    /// Dealt out to threads: portable engine.
    Virtual = 2,
}

/// What was found at the start, for reports.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The engine in use.
    pub mode: Mode,
    /// What numbers the slots.
    pub slot_kind: SlotKind,
    /// How many slots there are.
    pub slots: usize,
    /// libc registered the area (rseq engine).
    pub libc_registered: bool,
    /// Slots can be drained from outside with `membarrier`.
    pub fence: bool,
}

const LIBC_REGISTERED: u32 = 1;
const FENCE: u32 = 2;

/// Written once by [`start`], last; read everywhere.
static MODE: AtomicU8 = AtomicU8::new(Mode::NotStarted as u8);
static SLOT_KIND: AtomicU8 = AtomicU8::new(SlotKind::Virtual as u8);
static FLAGS: AtomicU32 = AtomicU32::new(0);
static STARTING: Lock<()> = Lock::new(());

/// The engine in use.
#[inline]
#[must_use]
pub fn mode() -> Mode {
    // Acquire pairs with the Release in `start`: whoever sees an engine sees its table and area.
    match MODE.load(Ordering::Acquire) {
        1 => Mode::Rseq,
        2 => Mode::Portable,
        _ => Mode::NotStarted,
    }
}

/// What was found at the start.
#[must_use]
pub fn facts() -> Facts {
    let mode = mode();
    // Relaxed, both: published by the Release of the mode, which was read first.
    let flags = FLAGS.load(Ordering::Relaxed);
    let slot_kind = match SLOT_KIND.load(Ordering::Relaxed) {
        0 => SlotKind::ConcurrencyId,
        1 => SlotKind::Processor,
        _ => SlotKind::Virtual,
    };
    Facts {
        mode,
        slot_kind,
        slots: area::slot_count(),
        libc_registered: flags & LIBC_REGISTERED != 0,
        fence: flags & FENCE != 0,
    }
}

/// Chooses the engine and maps table and area; later calls do nothing.
///
/// Runs in a constructor, before the program has threads, and in any case before the first use.
/// Aborts with one line when there is no memory for the table: nothing can work then. May be
/// called inside an allocation: it does not allocate.
pub fn start() {
    let _starting = STARTING.lock();
    if mode() != Mode::NotStarted {
        return;
    }
    let plan = Plan::make();
    let slots = match plan.mode {
        Mode::Portable => env::number("SHEAVES_SLOTS", 1, topology::CPUS_MAX),
        _ => None,
    };
    if !area::map(slots.unwrap_or_else(topology::possible_cpus)) {
        sheaves_sys::report::die(format_args!("no address space for per-CPU areas"));
    }
    // Relaxed, both: published by the Release below.
    SLOT_KIND.store(plan.slot_kind as u8, Ordering::Relaxed);
    FLAGS.store(plan.flags, Ordering::Relaxed);
    super::access::publish(plan.sequence, plan.slot);
    // Release pairs with the Acquire in `mode`.
    MODE.store(plan.mode as u8, Ordering::Release);
    crate::fork::announce();
}

/// Runs [`start`] when the object is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn constructor() {
        start();
    }
    constructor
};

/// The decision, before it takes effect.
struct Plan {
    mode: Mode,
    slot_kind: SlotKind,
    flags: u32,
    /// Where `rseq_cs` and the slot number are, see [`super::Access`].
    sequence: isize,
    slot: isize,
}

impl Plan {
    /// The fast path gets an area of our own, in which the slot number is always -1.
    fn portable() -> Plan {
        let (mode, slot_kind) = (Mode::Portable, SlotKind::Virtual);
        let area = own_area_offset();
        let sequence = area + rseq::RSEQ_CS_OFFSET.cast_signed();
        let slot = area + sheaves_sys::tls::NO_SLOT_OFFSET.cast_signed();
        Plan { mode, slot_kind, flags: 0, sequence, slot }
    }

    fn make() -> Plan {
        const WORDS: &[(&str, Option<Mode>)] =
            &[("auto", None), ("rseq", Some(Mode::Rseq)), ("portable", Some(Mode::Portable))];
        let asked = env::choice("SHEAVES_ENGINE", WORDS).flatten();
        if asked == Some(Mode::Portable) {
            return Plan::portable();
        }
        let found = Plan::rseq();
        if found.is_none() && asked == Some(Mode::Rseq) {
            let text = "SHEAVES_ENGINE=rseq: rseq is not to be had here, using portable";
            sheaves_sys::report::report(format_args!("{text}"));
        }
        found.unwrap_or_else(Plan::portable)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn rseq() -> Option<Plan> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    fn rseq() -> Option<Plan> {
        let libc_area = sheaves_sys::tls::libc_rseq_offset();
        let area = match libc_area {
            Some(offset) => offset,
            None => crate::slots::register_own_area().then(own_area_offset)?,
        };
        let fence = membarrier::register_abort_sections();
        let slot_kind = Self::slot_kind(fence);
        let slot_offset = match slot_kind {
            SlotKind::ConcurrencyId => rseq::MM_CID_OFFSET,
            _ => rseq::CPU_ID_OFFSET,
        };
        let mut flags = if fence { FENCE } else { 0 };
        if libc_area.is_some() {
            flags |= LIBC_REGISTERED;
        }
        let sequence = area + rseq::RSEQ_CS_OFFSET.cast_signed();
        let slot = area + slot_offset.cast_signed();
        Some(Plan { mode: Mode::Rseq, slot_kind, flags, sequence, slot })
    }

    /// Concurrency ids need a kernel that fills them, and a fence: without one a slot is drained
    /// by a thread that binds itself to it, which only works for processors.
    #[cfg(target_arch = "x86_64")]
    fn slot_kind(fence: bool) -> SlotKind {
        const WORDS: &[(&str, SlotKind)] =
            &[("cid", SlotKind::ConcurrencyId), ("cpu", SlotKind::Processor)];
        let filled = rseq::feature_bytes() >= rseq::MM_CID_OFFSET + 4;
        match env::choice("SHEAVES_SLOT", WORDS) {
            Some(SlotKind::ConcurrencyId) if !filled || !fence => {
                let text = "SHEAVES_SLOT=cid: not to be had on this kernel, using cpu";
                sheaves_sys::report::report(format_args!("{text}"));
                SlotKind::Processor
            }
            Some(asked) => asked,
            None if filled && fence => SlotKind::ConcurrencyId,
            None => SlotKind::Processor,
        }
    }
}

/// Our own area as an offset from the thread pointer: the same in every thread.
#[cfg(target_arch = "x86_64")]
fn own_area_offset() -> isize {
    let area = sheaves_sys::tls::thread_area().addr();
    area.wrapping_sub(sheaves_sys::tls::thread_pointer()).cast_signed()
}

/// There is no area and no fast path.
#[cfg(not(target_arch = "x86_64"))]
fn own_area_offset() -> isize {
    0
}
