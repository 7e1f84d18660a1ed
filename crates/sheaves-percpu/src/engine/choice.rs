//! The choice of the engine, made once.
//!
//! The options `SHEAVES_ENGINE`, `SHEAVES_SLOT` and `SHEAVES_SLOTS` are in `docs/options.md`.
//!
//! The portable engine is chosen on request, on other architectures, and where rseq is refused (old
//! kernel, seccomp, emulator). libc's rseq registration is used if there is one. Otherwise every
//! thread registers its own area at its first slow path.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::{env, membarrier, rseq, topology};

use crate::area;

/// The engine that runs transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// [`start`] has not run: every transaction fails.
    NotStarted = 0,
    /// Linux restartable sequences (rseq).
    Rseq = 1,
    /// Atomic exchange on virtual slots.
    Portable = 2,
}

/// Where slot numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotKind {
    /// The kernel's concurrency id (`mm_cid`): as many slots as threads run at once.
    ConcurrencyId = 0,
    /// The CPU number (`cpu_id`).
    Processor = 1,
    /// Assigned to threads by the portable engine.
    Virtual = 2,
}

/// What the start found, for reports.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The engine in use.
    pub mode: Mode,
    /// Where slot numbers come from.
    pub slot_kind: SlotKind,
    /// Number of slots.
    pub slots: usize,
    /// libc registered the area (rseq engine).
    pub libc_registered: bool,
    /// Slots can be drained from outside with `membarrier`.
    pub fence: bool,
}

const LIBC_REGISTERED: u32 = 1;
const FENCE: u32 = 2;

/// Written once, as the last step of [`start`]; read everywhere.
static MODE: AtomicU8 = AtomicU8::new(Mode::NotStarted as u8);
static SLOT_KIND: AtomicU8 = AtomicU8::new(SlotKind::Virtual as u8);
static FLAGS: AtomicU32 = AtomicU32::new(0);
static STARTING: Lock<()> = Lock::new(());

/// The engine in use.
#[inline]
#[must_use]
pub fn mode() -> Mode {
    // Acquire pairs with the Release in `start`: a thread that reads an engine sees its table and
    // rows.
    match MODE.load(Ordering::Acquire) {
        1 => Mode::Rseq,
        2 => Mode::Portable,
        _ => Mode::NotStarted,
    }
}

/// What the start found.
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
/// Never allocates, so an allocator may call it. Aborts with one line when address space for the
/// rows is out, because nothing can work then.
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

/// The choice, before it takes effect.
struct Plan {
    mode: Mode,
    slot_kind: SlotKind,
    flags: u32,
    /// Offsets of `rseq_cs` and of the slot number, see [`super::Access`].
    sequence: isize,
    slot: isize,
}

impl Plan {
    /// The fast path gets an area of this project, whose slot number is always -1.
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
            let text = "SHEAVES_ENGINE=rseq: rseq is unavailable, using portable";
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

    /// Concurrency ids need a kernel that sets `mm_cid`, and a fence. Without a fence, a thread
    /// drains a slot by binding itself to it, which is possible only for CPUs.
    #[cfg(target_arch = "x86_64")]
    fn slot_kind(fence: bool) -> SlotKind {
        const WORDS: &[(&str, SlotKind)] =
            &[("cid", SlotKind::ConcurrencyId), ("cpu", SlotKind::Processor)];
        let filled = rseq::feature_bytes() >= rseq::MM_CID_OFFSET + 4;
        match env::choice("SHEAVES_SLOT", WORDS) {
            Some(SlotKind::ConcurrencyId) if !filled || !fence => {
                let text = "SHEAVES_SLOT=cid: this kernel has no mm_cid, using cpu";
                sheaves_sys::report::report(format_args!("{text}"));
                SlotKind::Processor
            }
            Some(asked) => asked,
            None if filled && fence => SlotKind::ConcurrencyId,
            None => SlotKind::Processor,
        }
    }
}

/// Offset of this project's own area from the thread pointer: the same in every thread.
#[cfg(target_arch = "x86_64")]
fn own_area_offset() -> isize {
    let area = sheaves_sys::tls::thread_area().addr();
    area.wrapping_sub(sheaves_sys::tls::thread_pointer()).cast_signed()
}

/// Other architectures have no area and no fast path.
#[cfg(not(target_arch = "x86_64"))]
fn own_area_offset() -> isize {
    0
}
