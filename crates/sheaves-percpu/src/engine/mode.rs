//! Which engine runs, and on which slots: written once, at the start.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use super::access::{self, Access};
use crate::area;

/// The engine that runs transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// [`super::start`] has not run: every transaction fails.
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
    MmCid = 0,
    /// The CPU number (`cpu_id`).
    CpuId = 1,
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

static MODE: AtomicU8 = AtomicU8::new(Mode::NotStarted as u8);
static SLOT_KIND: AtomicU8 = AtomicU8::new(SlotKind::Virtual as u8);
static FLAGS: AtomicU32 = AtomicU32::new(0);

/// The engine in use.
#[inline]
#[must_use]
pub fn mode() -> Mode {
    // Acquire pairs with the Release in `publish`: a thread that reads an engine sees its table and
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
        0 => SlotKind::MmCid,
        1 => SlotKind::CpuId,
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

/// Publishes the choice of the start, as its last step.
pub(crate) fn publish(facts: &Facts, access: Access) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(facts.libc_registered, LIBC_REGISTERED) | flag(facts.fence, FENCE);
    // Relaxed, both: published by the Release below.
    SLOT_KIND.store(facts.slot_kind as u8, Ordering::Relaxed);
    FLAGS.store(flags, Ordering::Relaxed);
    access::publish(access);
    // Release pairs with the Acquire in `mode`.
    MODE.store(facts.mode as u8, Ordering::Release);
}
