//! The start: the choice of the engine, made once.
//!
//! The options `SHEAVES_ENGINE`, `SHEAVES_SLOT` and `SHEAVES_SLOTS` are in `docs/options.md`.
//!
//! The portable engine is chosen on request, on other architectures, and where rseq is refused (old
//! kernel, seccomp, emulator). libc's rseq registration is used if there is one. Otherwise every
//! thread registers its own area at its first slow path.

use sheaves_sys::lock::Lock;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use sheaves_sys::membarrier;
use sheaves_sys::{options, rseq, tls, topology};

use crate::engine::{Access, Facts, Mode, SlotKind, facts, mode, publish};
use crate::{fork, rows, table};

static STARTING: Lock<()> = Lock::new(());

impl Access {
    /// Starts the engine if it has not started. Otherwise a load and a test.
    #[inline]
    #[must_use]
    pub fn get() -> Access {
        if !Access::is_started() {
            start();
        }
        // SAFETY: the engine has started.
        unsafe { Access::of_started() }
    }
}

/// Chooses the engine, fills the table and reserves the rows; later calls do nothing.
///
/// Runs in a constructor, before the program has threads, and in any case before the first use.
/// Never allocates, so an allocator may call it. Aborts with one line when address space for the
/// rows is out, because nothing can work then.
pub(crate) fn start() {
    let _starting = STARTING.lock();
    if mode() != Mode::NotStarted {
        return;
    }
    // First of all: nothing else in the process may have run yet.
    options::read();
    let (mut facts, access) = choose();
    let asked = options::SLOTS.asked().filter(|_| facts.mode == Mode::Portable);
    facts.slots = asked.map_or_else(topology::possible_cpus, |slots| slots as usize);
    // A `cpu_id` may be higher than the number of slots: then the thread has none.
    table::fill(facts.slots.max(topology::cpu_ids_end()));
    if !rows::reserve(facts.slots) {
        sheaves_sys::report::die(format_args!("no address space for per-CPU areas"));
    }
    publish(&facts, access);
    fork::announce();
}

sheaves_sys::run_when_loaded!({
    start();
    complain();
});

/// Reports options that could not be followed.
fn complain() {
    let facts = facts();
    if options::ENGINE.word() == "rseq" && facts.mode != Mode::Rseq {
        let text = "SHEAVES_ENGINE=rseq: rseq is unavailable, using portable";
        options::complain(format_args!("{text}"));
    }
    if options::SLOT.word() == "cid" && facts.slot_kind == SlotKind::CpuId {
        let text = "SHEAVES_SLOT=cid: this kernel has no mm_cid, using cpu";
        options::complain(format_args!("{text}"));
    }
}

/// The engine, without the number of slots, and the access that it will have.
fn choose() -> (Facts, Access) {
    match options::ENGINE.word() {
        "portable" => portable(),
        _ => with_rseq().unwrap_or_else(portable),
    }
}

/// The fast path gets an area of this project whose slot number is always -1, so that it fails.
fn portable() -> (Facts, Access) {
    let (mode, slot_kind) = (Mode::Portable, SlotKind::Virtual);
    let facts = Facts { mode, slot_kind, slots: 0, libc_registered: false, fence: false };
    (facts, access_at(own_area_offset(), tls::NO_SLOT_OFFSET))
}

/// Access to an area at an offset from the thread pointer, with the slot number at an offset in it.
fn access_at(area: isize, slot_offset: usize) -> Access {
    // INVARIANT: every thread has the area; the access is published with the start.
    let rseq_cs = area + rseq::RSEQ_CS_OFFSET.cast_signed();
    Access { rseq_cs, slot: area + slot_offset.cast_signed() }
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
fn with_rseq() -> Option<(Facts, Access)> {
    None
}

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn with_rseq() -> Option<(Facts, Access)> {
    let libc_area = tls::libc_rseq_offset();
    let area = match libc_area {
        Some(offset) => offset,
        None => crate::slots::register_own_area().then(own_area_offset)?,
    };
    let fence = membarrier::register_abort_sections();
    let slot_kind = slot_kind(fence);
    let slot_offset = match slot_kind {
        SlotKind::MmCid => rseq::MM_CID_OFFSET,
        _ => rseq::CPU_ID_OFFSET,
    };
    let libc_registered = libc_area.is_some();
    let facts = Facts { mode: Mode::Rseq, slot_kind, slots: 0, libc_registered, fence };
    Some((facts, access_at(area, slot_offset)))
}

/// Concurrency ids need a kernel that sets `mm_cid`, and a fence. Without a fence, a thread drains
/// a slot by binding itself to it, which is possible only for CPUs.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn slot_kind(fence: bool) -> SlotKind {
    let has_mm_cid = fence && rseq::feature_bytes() >= rseq::MM_CID_OFFSET + 4;
    match options::SLOT.word() {
        "cpu" => SlotKind::CpuId,
        _ if has_mm_cid => SlotKind::MmCid,
        _ => SlotKind::CpuId,
    }
}

/// Offset of this project's own area from the thread pointer: the same in every thread.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn own_area_offset() -> isize {
    tls::thread_area().addr().wrapping_sub(tls::thread_pointer()).cast_signed()
}

/// Other architectures have no area and no fast path.
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
fn own_area_offset() -> isize {
    0
}
