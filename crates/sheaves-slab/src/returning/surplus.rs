//! What frees do at once with free objects between others, before the keeper ticks, and where there
//! is none: in a process with one thread above all.
//!
//! Free slabs go back as soon as there are many, see `chunk`. But objects that are freed in random
//! order leave slabs with a few objects each, most of them not in use but in sheaves. So each time
//! what is in use has fallen to a quarter, and much is unused, there is a *pass*: it flushes the
//! sheaves of its slot and the depots, so that slabs become empty and serve other caches, and
//! depots and new sheaves hold no more than a share of what is in use from then on. The library's
//! thread, if there is one, flushes the sheaves of other slots. Without a keeper it also discards
//! the pages of free objects, in pieces, at the end of slow paths that free; and again, while what
//! is in use goes on to fall, after each sixteenth. For the last free may be the last call.
//!
//! A program that fills and empties its memory again and again has few passes in a second.

use sheaves_rcu::internal::{self, keeper};
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, errno};

use crate::moves::registry;
use crate::parts::usage;
use crate::returning::tick;
use crate::space::cache_id::CacheId;
use crate::space::hint::Hint;
use crate::space::slab::Holes;
use crate::space::{chunk, granule, slab};

/// A piece discards about this many bytes at most, and looks at this many granules at most.
const PIECE_BYTES: u64 = 8 << 20;
const PIECE_GRANULES: usize = 2048;
/// With less unused there is no pass. A quarter of what is in use may be unused, too.
const UNUSED_BYTES_MAX: usize = 8 << 20;
/// There is no check below this drop.
const DROP_BYTES_MIN: usize = 64 << 10;

/// The least time between two passes if what was in use has grown again meanwhile: without a
/// keeper, when a pass costs page faults, and with one.
const AGAIN_MS: usize = 1000;
const AGAIN_KEPT_MS: usize = 128;

/// The time of the last pass, what was in use then, and the most that was in use since then.
static PASSED_MS: Hint = Hint::new(0);
static PASSED_BYTES: Hint = Hint::new(0);
static PEAK_BYTES: Hint = Hint::new(0);
/// The next check is due after a drop of this many bytes.
static DROP_BYTES_DUE: Hint = Hint::new(DROP_BYTES_MIN);
/// How often pages are discarded again after a pass: until in use is a quarter, in sixteenths.
const AGAIN_MAX: usize = 24;
/// How often they may be since the last pass.
static AGAIN_LEFT: Hint = Hint::new(0);
/// The granule at which the pass goes on, counted from the heap's first; [`NO_PASS`] without one.
static NEXT: Hint = Hint::new(NO_PASS);
const NO_PASS: usize = usize::MAX;

/// Called at the end of slow paths that free, without a lock: has unused memory returned to the
/// kernel if it is time.
#[inline]
pub(crate) fn after_free() {
    chunk::do_due_after_free();
    if usage::drop_bytes() >= DROP_BYTES_DUE.get() || NEXT.get() != NO_PASS {
        errno::preserve(return_some);
    }
}

#[cold]
fn return_some() {
    if NEXT.get() == NO_PASS && !begin() {
        return;
    }
    let begin = NEXT.get();
    let (before, mut count) = (slab::holes_bytes(), 0);
    for granule in granule::all().skip(begin).take(PIECE_GRANULES) {
        count += 1;
        if granule.entry() != 0 && has_new_holes(granule) {
            tick::discard_holes(granule);
        }
        if slab::holes_bytes() - before >= PIECE_BYTES {
            break;
        }
    }
    NEXT.set(if count == 0 { NO_PASS } else { begin + count });
}

/// Checks whether there is to be a pass, and begins it. True if pages are to be discarded.
fn begin() -> bool {
    let in_use = |id: CacheId| id.descriptor().depot.in_use() * id.shape().stride;
    let in_use_bytes: usize = registry::map_existing(in_use).sum();
    let before_bytes = in_use_bytes + usage::drop_bytes();
    let peak_bytes = PEAK_BYTES.get().max(before_bytes);
    PEAK_BYTES.set(peak_bytes);
    usage::begin_drop();
    let is_quarter = in_use_bytes <= peak_bytes / 4;
    let again_left = AGAIN_LEFT.get();
    let falls = !keeper::is_active() && (is_quarter || again_left != 0 && !has_grown(peak_bytes));
    let due_bytes = if falls {
        in_use_bytes / 16
    } else {
        // The drop after which in use is a quarter of the peak, or a quarter of what it is now.
        in_use_bytes - if is_quarter { in_use_bytes } else { peak_bytes } / 4
    };
    let due_bytes = due_bytes.max(DROP_BYTES_MIN);
    DROP_BYTES_DUE.set(due_bytes);
    let unused_bytes = chunk::footprint().used_bytes.saturating_sub(in_use_bytes);
    chunk::note_unused(unused_bytes);
    if !(is_quarter || falls)
        || unused_bytes <= UNUSED_BYTES_MAX.max(in_use_bytes / 4)
        || keeper::decay_ms().is_none()
        || is_too_soon(peak_bytes)
    {
        return false;
    }
    if !is_quarter {
        AGAIN_LEFT.set(again_left.saturating_sub(1));
        NEXT.set(0);
        return true;
    }
    AGAIN_LEFT.set(AGAIN_MAX);
    PASSED_MS.set(clock::coarse_ms() as usize);
    PASSED_BYTES.set(in_use_bytes);
    PEAK_BYTES.set(in_use_bytes);
    tick::flush_slots(Reach::Quiet);
    FLUSHES_OTHERS.set(1);
    internal::request_sweep();
    for id in registry::map_existing(|id| id) {
        registry::if_existing(id, |id| id.descriptor().depot.restrict(id.shape()));
        tick::flush_depot(id, usize::MAX);
    }
    chunk::do_due_after_free();
    if keeper::is_active() {
        return false;
    }
    NEXT.set(0);
    true
}

/// The sheaves of other slots are to be flushed, too.
static FLUSHES_OTHERS: Hint = Hint::new(0);

/// For the library's thread: the part of a pass that is in other slots.
pub(crate) fn sweep() {
    if FLUSHES_OTHERS.swap(0) != 0 {
        tick::flush_slots(Reach::Interrupts);
    }
}

/// True if there was a pass a short time ago and what was in use has grown since then.
fn is_too_soon(peak_bytes: usize) -> bool {
    let again_ms = if keeper::is_active() { AGAIN_KEPT_MS } else { AGAIN_MS };
    let since_ms = (clock::coarse_ms() as usize).saturating_sub(PASSED_MS.get());
    has_grown(peak_bytes) && since_ms < again_ms
}

/// True if what was in use has doubled since the last pass, or there was none.
fn has_grown(peak_bytes: usize) -> bool {
    peak_bytes / 2 > PASSED_BYTES.get()
}

/// True if objects of the slab became free since its holes were discarded.
fn has_new_holes(granule: granule::Granule) -> bool {
    let slab = slab::header(granule);
    match slab.tick_holes() {
        Holes::NothingToDo => false,
        Holes::Changed => slab.tick_holes() == Holes::Unchanged,
        Holes::Unchanged => true,
    }
}
