//! Which engine runs, and on which slots: written once, at the start.

use core::sync::atomic::{AtomicU32, Ordering};

use super::access::{self, Access};
use crate::rows;

/// The engine that runs transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The start has not run: every transaction fails.
    NotStarted,
    /// Linux restartable sequences (rseq).
    Rseq,
    /// Atomic exchange on virtual slots.
    Portable,
}

/// Where slot numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotKind {
    /// Assigned to threads by the portable engine.
    Virtual = 1,
    /// The kernel's concurrency id (`mm_cid`): as many slots as threads run at once.
    MmCid = 2,
    /// The CPU number (`cpu_id`).
    CpuId = 3,
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

/// What the start found: in the lowest two bits the [`SlotKind`], which implies the engine; then
/// two flags. 0 before the start.
static STATE: AtomicU32 = AtomicU32::new(0);
const LIBC_REGISTERED: u32 = 1 << 2;
const FENCE: u32 = 1 << 3;

fn mode_of(state: u32) -> Mode {
    match state & 3 {
        0 => Mode::NotStarted,
        1 => Mode::Portable,
        _ => Mode::Rseq,
    }
}

/// The engine in use.
#[inline]
#[must_use]
pub fn mode() -> Mode {
    // Acquire pairs with the Release in `publish`: a thread that reads an engine sees its table and
    // rows.
    mode_of(STATE.load(Ordering::Acquire))
}

/// What the start found.
#[must_use]
pub fn facts() -> Facts {
    // Acquire: as in `mode`.
    let state = STATE.load(Ordering::Acquire);
    Facts {
        mode: mode_of(state),
        slot_kind: match state & 3 {
            2 => SlotKind::MmCid,
            3 => SlotKind::CpuId,
            _ => SlotKind::Virtual,
        },
        slots: rows::slot_count(),
        libc_registered: state & LIBC_REGISTERED != 0,
        fence: state & FENCE != 0,
    }
}

/// Publishes the choice of the start, as its last step.
pub(crate) fn publish(facts: &Facts, access: Access) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(facts.libc_registered, LIBC_REGISTERED) | flag(facts.fence, FENCE);
    access::publish(access);
    // Release pairs with the Acquire in `mode` and `facts`.
    STATE.store(facts.slot_kind as u32 | flags, Ordering::Release);
}
