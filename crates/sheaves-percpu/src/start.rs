//! The start: the choice of the engine, made once. Its options are in `docs/options.md`.
//!
//! The portable engine is chosen on request, on other architectures, and where rseq is refused (old
//! kernel, seccomp, emulator). libc's rseq registration is used if there is one. Otherwise every
//! thread registers its own area at its first slow path.

use core::sync::atomic::Ordering;

use sheaves_sys::lock::Lock;
use sheaves_sys::{membarrier, options, rseq, tls, topology};

use crate::engine::{Access, EngineMode, Facts, SlotKind, mode, publish};
use crate::table::{self, TABLE};
use crate::{fork, rows};

/// What was chosen, from the first attempt on.
#[unsafe(link_section = ".sheaves_load")]
static STARTING: Lock<Option<(Facts, Access)>> = Lock::new(None);

impl Access {
    /// Starts the engine if it has not started, and aborts with one line where [`try_start`] fails.
    /// Otherwise a load and a test.
    #[inline]
    pub fn get() -> Access {
        // Acquire pairs with the Release in `publish`: the other field is set, too.
        if TABLE.rseq_cs.load(Ordering::Acquire) == 0 && !try_start() {
            sheaves_sys::report::die(format_args!("no address space for per-CPU areas"));
        }
        // SAFETY: the engine has started.
        unsafe { Access::of_started() }
    }
}

/// Chooses the engine and reserves the rows. False when address space for the rows is out; may be
/// tried again. Does nothing once it has succeeded.
///
/// Runs in a constructor, before the program has threads, and in any case before the first use.
/// Never allocates, so an allocator may call it.
#[cold]
#[unsafe(link_section = ".text.sheaves_load")]
pub fn try_start() -> bool {
    let mut starting = STARTING.lock();
    if mode() != EngineMode::NotStarted {
        return true;
    }
    let (facts, access) = *starting.get_or_insert_with(choose);
    if !rows::reserve(facts.slots) {
        return false;
    }
    publish(&facts, access);
    fork::announce();
    true
}

sheaves_sys::run_when_loaded!(if try_start() {
    complain();
});

fn complain() {
    let asked = options::ENGINE.word();
    if asked.starts_with("rseq") && mode() != EngineMode::Rseq {
        let text = format_args!("SHEAVES_ENGINE={asked}: rseq is unavailable, using portable");
        options::complain(text);
    }
}

fn choose() -> (Facts, Access) {
    // First of all: nothing else in the process may have run yet.
    options::read();
    let wants_rseq = !cfg!(miri) && options::ENGINE.word() != "portable";
    let with_rseq = if wants_rseq { with_rseq() } else { None };
    // Otherwise the fast path gets an area of this project whose slot number is always -1, so that
    // it fails.
    let (mut facts, access) = with_rseq.unwrap_or_else(|| {
        let (mode, slot_kind) = (EngineMode::Portable, SlotKind::Virtual);
        let facts = Facts { mode, slot_kind, slots: 0, fence: false };
        (facts, access_at(own_area_offset(), tls::NO_SLOT_OFFSET))
    });
    let asked = options::SLOTS.asked().filter(|_| facts.mode == EngineMode::Portable);
    facts.slots = asked.map_or_else(topology::possible_cpus, |slots| slots as usize);
    // A `cpu_id` may be higher than the number of slots: then the thread has none.
    table::fill(facts.slots.max(topology::cpu_ids_end()));
    (facts, access)
}

/// Access to an area at an offset from the thread pointer, with the slot number at an offset in it.
fn access_at(area: isize, slot_offset: usize) -> Access {
    // INVARIANT: every thread has the area; the access is published with the start.
    let rseq_cs = area + rseq::RSEQ_CS_OFFSET.cast_signed();
    Access { rseq_cs, slot: area + slot_offset.cast_signed() }
}

fn with_rseq() -> Option<(Facts, Access)> {
    let area = match tls::libc_rseq_offset() {
        Some(offset) => offset,
        None => crate::slots::register_own_area().then(own_area_offset)?,
    };
    let fence = membarrier::register_abort_sections();
    // Concurrency ids need a kernel that sets `mm_cid`, and a fence. Without a fence, a thread
    // drains a slot by binding itself to it, which is possible only for CPUs.
    let has_mm_cid = fence && rseq::feature_bytes() >= rseq::MM_CID_OFFSET + 4;
    let (slot_kind, slot_offset) = if has_mm_cid && options::ENGINE.word() != "rseq-cpu" {
        (SlotKind::MmCid, rseq::MM_CID_OFFSET)
    } else {
        (SlotKind::CpuId, rseq::CPU_ID_OFFSET)
    };
    let facts = Facts { mode: EngineMode::Rseq, slot_kind, slots: 0, fence };
    Some((facts, access_at(area, slot_offset)))
}

/// Offset of this project's own area from the thread pointer: the same in every thread.
fn own_area_offset() -> isize {
    tls::thread_area().addr().wrapping_sub(tls::thread_pointer()).cast_signed()
}
