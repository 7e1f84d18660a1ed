//! Which engine runs, on which slots, and where threads find theirs: written once, at the start.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::rows;
use crate::table::TABLE;

/// Offsets of a thread's `rseq_cs` and slot number (`cpu_id` or `mm_cid`) from its thread pointer.
///
/// They are the same in all threads and constant after the start: keep a copy where transactions
/// are frequent.
///
/// # Invariants
/// The engine has started, and both offsets are in an area that every thread has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub(crate) rseq_cs: isize,
    pub(crate) slot: isize,
}

impl Access {
    /// The access, without a test whether the engine has started.
    ///
    /// # Safety
    /// The engine's start happened before this call: the caller has an object or a cache, or has
    /// read a limit that was raised after the start.
    #[inline(always)]
    pub unsafe fn of_started() -> Access {
        // INVARIANT: the caller guarantees the start.
        Access {
            // Relaxed, both: constant after the start, which happened before, see the contract.
            rseq_cs: TABLE.rseq_cs.load(Ordering::Relaxed),
            slot: TABLE.slot.load(Ordering::Relaxed),
        }
    }
}

/// The engine that runs transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineMode {
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
    pub mode: EngineMode,
    /// Where slot numbers come from.
    pub slot_kind: SlotKind,
    /// Number of slots.
    pub slots: usize,
    /// Slots can be drained from outside with `membarrier`.
    pub fence: bool,
}

/// What the start found: in the lowest two bits the [`SlotKind`], which implies the engine; then
/// whether there is a fence. 0 before the start.
#[unsafe(link_section = ".sheaves_load")]
static STATE: AtomicU32 = AtomicU32::new(0);
const FENCE: u32 = 1 << 2;

/// The engine in use.
#[inline]
pub fn mode() -> EngineMode {
    // Acquire pairs with the Release in `publish`: a thread that reads an engine sees its table and
    // rows.
    mode_of(STATE.load(Ordering::Acquire))
}

fn mode_of(state: u32) -> EngineMode {
    match state & 3 {
        0 => EngineMode::NotStarted,
        1 => EngineMode::Portable,
        _ => EngineMode::Rseq,
    }
}

/// What the start found.
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
        fence: state & FENCE != 0,
    }
}

/// Publishes the choice of the start, as its last step.
pub(crate) fn publish(facts: &Facts, access: Access) {
    // Relaxed: published by the Release below.
    TABLE.slot.store(access.slot, Ordering::Relaxed);
    // Release pairs with the Acquire in `Access::get`.
    TABLE.rseq_cs.store(access.rseq_cs, Ordering::Release);
    let fence = if facts.fence { FENCE } else { 0 };
    // Release pairs with the Acquire in `mode` and `facts`.
    STATE.store(facts.slot_kind as u32 | fence, Ordering::Release);
}
