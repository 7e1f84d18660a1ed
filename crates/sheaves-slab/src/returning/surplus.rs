//! What frees do at once with free objects between others, before the keeper ticks, and where there
//! is none: in a process with one thread above all.
//!
//! Free slabs go back as soon as there are many, see `chunk`. But objects that are freed in random
//! order leave slabs with a few objects each, most of them not in use but in sheaves. So each time
//! what is in use has fallen to a quarter, and much is unused, there is a *pass*: it flushes the
//! sheaves of its slot and the depots, so that slabs become empty and serve other caches, and
//! depots and new sheaves hold no more than a share of what is in use from then on. The library's
//! thread, if there is one, does that. Without a keeper a pass also discards the pages of free
//! objects; and while what is in use goes on to fall, each flush does so, of the slabs to which it
//! returns objects. For the last free may be the last call.
//!
//! What threads of the program do of that goes in pieces, at the end of slow paths that free. A
//! program that fills and empties its memory again and again has few passes in a second.

use sheaves_rcu::internal::{self, keeper};
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, errno};

use crate::checked::incoming;
use crate::moves::registry::{self, if_existing};
use crate::moves::{flush, release};
use crate::parts::usage;
use crate::returning::tick;
use crate::space::cache_id::CacheId;
use crate::space::hint::Hint;
use crate::space::work::{self, Piece};
use crate::space::{chunk, granule};

/// With less unused there is no pass. A quarter of what is in use may be unused, too.
const UNUSED_BYTES_MAX: usize = 8 << 20;
/// After a smaller drop there is no look.
const DROP_BYTES_MIN: usize = 64 << 10;
/// The least time between two passes if what was in use has grown again meanwhile: without a
/// keeper, when a pass costs page faults, and with one.
const APART_MS: usize = 1000;
const APART_KEPT_MS: usize = 128;

/// The last pass.
///
/// | word | says | changes |
/// |---|---|---|
/// | `ms`, `in_use_bytes` | when it was, and what was in use then | at a pass |
/// | `peak_bytes` | the most that was in use since then | at a look and a pass |
/// | `cache` | the cache whose sheaves are flushed next | with each piece |
/// | `granule` | the granule at which to go on, counted from the heap's first | with each piece |
///
/// `cache` and `granule` are [`DONE`] when there is nothing to do; the caches come first.
struct Pass {
    ms: Hint,
    in_use_bytes: Hint,
    peak_bytes: Hint,
    cache: Hint,
    granule: Hint,
}

static PASS: Pass = {
    let [ms, in_use_bytes, peak_bytes] = [const { Hint::new(0) }; 3];
    let [cache, granule] = [const { Hint::new(DONE) }; 2];
    Pass { ms, in_use_bytes, peak_bytes, cache, granule }
};

const DONE: usize = usize::MAX;
/// The next look is due after a drop of this many bytes.
static DROP_BYTES_DUE: Hint = Hint::new(DROP_BYTES_MIN);

impl Pass {
    fn is_done(&self) -> bool {
        self.cache.get() == DONE && self.granule.get() == DONE
    }
}

/// Called at the end of slow paths that free, without a lock: has unused memory returned to the
/// kernel if it is time.
#[inline]
pub(crate) fn after_free() {
    chunk::do_due_after_free();
    if usage::drop_bytes() >= DROP_BYTES_DUE.get() || !PASS.is_done() {
        errno::preserve(return_some);
    }
    if tick::is_going_on() && !keeper::is_active() {
        errno::preserve(tick::go_on);
    }
}

#[cold]
fn return_some() {
    if usage::drop_bytes() >= DROP_BYTES_DUE.get() {
        begin();
    }
    if PASS.cache.get() != DONE {
        flush_piece();
    } else if PASS.granule.get() != DONE {
        discard_piece();
    }
}

/// Looks at what is in use, and begins what is due.
fn begin() {
    let look = Look::new();
    DROP_BYTES_DUE.set(look.drop_bytes_due().max(DROP_BYTES_MIN));
    chunk::note_unused(look.unused_bytes);
    work::fit_to(look.unused_bytes / look.in_use_bytes.max(1));
    usage::begin_drop(look.falls_on());
    if look.is_quarter() && look.is_much_unused() && !look.is_too_soon() {
        pass(&look);
    }
}

/// What a look finds.
struct Look {
    in_use_bytes: usize,
    peak_bytes: usize,
    unused_bytes: usize,
    has_keeper: bool,
}

impl Look {
    fn new() -> Look {
        let in_use = |id: CacheId| id.descriptor().depot.in_use() * id.shape().stride;
        let in_use_bytes: usize = registry::map_existing(in_use).sum();
        let peak_bytes = PASS.peak_bytes.get().max(in_use_bytes + usage::drop_bytes());
        PASS.peak_bytes.set(peak_bytes);
        let unused_bytes = chunk::footprint().used_bytes.saturating_sub(in_use_bytes);
        Look { in_use_bytes, peak_bytes, unused_bytes, has_keeper: keeper::is_active() }
    }

    /// The drop after which in use is a sixteenth less, if pages are discarded without a keeper; or
    /// a quarter of the peak, or of what it is now.
    fn drop_bytes_due(&self) -> usize {
        match self.is_quarter() {
            true if self.has_keeper => self.in_use_bytes - self.in_use_bytes / 4,
            false if !self.falls_on() => self.in_use_bytes - self.peak_bytes / 4,
            _ => self.in_use_bytes / 16,
        }
    }

    fn is_quarter(&self) -> bool {
        self.in_use_bytes <= self.peak_bytes / 4
    }

    /// True if pages are discarded as they become free: without a keeper, after a pass.
    fn falls_on(&self) -> bool {
        !self.has_keeper && !self.has_grown()
    }

    fn is_much_unused(&self) -> bool {
        let bytes_max = UNUSED_BYTES_MAX.max(self.in_use_bytes / 4);
        self.unused_bytes > bytes_max && keeper::decay_ms().is_some()
    }

    /// True if what was in use has grown since the last pass, which was a short time ago, or what a
    /// program without a keeper has emptied is filled again.
    fn is_too_soon(&self) -> bool {
        let since_ms = (clock::coarse_ms() as usize).saturating_sub(PASS.ms.get());
        self.has_grown()
            && match self.has_keeper {
                true => since_ms < APART_KEPT_MS,
                false => since_ms < APART_MS || chunk::is_filled_again(),
            }
    }

    /// True if what was in use has doubled since the last pass, or there was none.
    fn has_grown(&self) -> bool {
        self.peak_bytes / 2 > PASS.in_use_bytes.get()
    }
}

/// The library's thread is to flush depots, and the sheaves of other slots.
static IS_TO_SWEEP: Hint = Hint::new(0);

/// A pass, but for what is done in pieces.
fn pass(look: &Look) {
    PASS.ms.set(clock::coarse_ms() as usize);
    PASS.in_use_bytes.set(look.in_use_bytes);
    PASS.peak_bytes.set(look.in_use_bytes);
    registry::map_existing(|id| id.descriptor().depot.restrict(id.shape())).for_each(drop);
    usage::begin_drop(look.falls_on());
    IS_TO_SWEEP.set(1);
    if !internal::request_sweep() {
        PASS.cache.set(0);
    } else if !keeper::is_active() {
        PASS.granule.set(0);
    }
}

/// For the library's thread: the part of a pass that is left to it, and what frees leave of arming
/// it.
pub(crate) fn sweep() {
    if IS_TO_SWEEP.swap(0) != 0 {
        tick::flush_slots();
        registry::all_ids().for_each(|id| tick::flush_depot(id, usize::MAX));
        chunk::do_due_after_free();
    }
    release::arm_reclaimer_if_pending();
}

fn flush_piece() {
    let (piece, mut number) = (Piece::begin(), PASS.cache.get());
    while !piece.is_over() && number < registry::numbers_used() {
        if if_existing(CacheId::new(number as u16), flush_some) != Some(true) {
            number += 1;
        }
    }
    let is_done = number >= registry::numbers_used();
    PASS.cache.set(if is_done { DONE } else { number });
    if is_done && PASS.granule.get() == DONE && !keeper::is_active() {
        PASS.granule.set(0);
    }
    release::leave_arming_to_reclaimer();
}

/// Flushes a sheaf of the depot; true if there may be others. Then those of the slot.
fn flush_some(id: CacheId) -> bool {
    let is_some = flush::flush_depot(id, 1) != 0;
    if !is_some {
        let _is_complete = incoming::flush_slots(id, Reach::Quiet);
    }
    is_some
}

fn discard_piece() {
    let (piece, begin) = (Piece::begin(), PASS.granule.get());
    let mut count = 0;
    for granule in granule::all_from(begin).take_while(|_| !piece.is_over()) {
        count += 1;
        if granule.entry() != 0 {
            tick::discard_new_holes(granule);
        }
        work::note(1);
    }
    PASS.granule.set(if count == 0 { DONE } else { begin + count });
}
