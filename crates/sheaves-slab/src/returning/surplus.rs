//! What frees do at once with free objects between others, before the keeper ticks, and where there
//! is none: in a process with one thread above all.
//!
//! Free slabs go back as soon as there are many, see `chunk`. But objects that are freed in random
//! order leave slabs with a few objects each, most of them not in use but in sheaves. So each time
//! what is in use has fallen to a quarter, and much is unused, there is a *pass*: it flushes the
//! sheaves of its slot and the depots, so that slabs become empty and serve other caches, and
//! depots and new sheaves hold no more than a share of what is in use from then on. The library's
//! thread, if there is one, flushes the depots, and the sheaves of other slots. Without a keeper a
//! pass also discards the pages of free objects; and again, while what is in use goes on to fall,
//! after each sixteenth. For the last free may be the last call.
//!
//! What threads of the program do of that goes in pieces, at the end of slow paths that free. A
//! program that fills and empties its memory again and again has few passes in a second.

use sheaves_rcu::internal::{self, keeper};
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, errno, map};

use crate::moves::flush;
use crate::moves::registry::{self, if_existing};
use crate::parts::usage;
use crate::returning::tick;
use crate::space::cache_id::CacheId;
use crate::space::hint::Hint;
use crate::space::slab::{Holes, Slab};
use crate::space::{chunk, granule, slab};

/// With less unused there is no pass. A quarter of what is in use may be unused, too.
const UNUSED_BYTES_MAX: usize = 8 << 20;
/// After a smaller drop there is no look.
const DROP_BYTES_MIN: usize = 64 << 10;
/// The least time between two passes if what was in use has grown again meanwhile: without a
/// keeper, when a pass costs page faults, and with one.
const APART_MS: usize = 1000;
const APART_KEPT_MS: usize = 128;
/// How often pages are discarded again after a pass: until in use is a quarter, in sixteenths.
const AGAIN_MAX: usize = 24;

/// The last pass.
///
/// | word | says | changes |
/// |---|---|---|
/// | `ms`, `in_use_bytes` | when it was, and what was in use then | at a pass |
/// | `peak_bytes` | the most that was in use since then | at a look and a pass |
/// | `again_left` | how often pages may be discarded again | full at a pass, less each time |
/// | `cache` | the cache whose depot is flushed next | with each piece |
/// | `granule` | the granule at which to go on, counted from the heap's first | with each piece |
/// | `work` | the most work of a piece | at a pass, and when pages are discarded again |
///
/// `cache` and `granule` are [`DONE`] when there is nothing to do; the depots come first.
struct Pass {
    ms: Hint,
    in_use_bytes: Hint,
    peak_bytes: Hint,
    again_left: Hint,
    cache: Hint,
    granule: Hint,
    work: Hint,
}

static PASS: Pass = {
    let [ms, in_use_bytes, peak_bytes, again_left, work] = [const { Hint::new(0) }; 5];
    let [cache, granule] = [const { Hint::new(DONE) }; 2];
    Pass { ms, in_use_bytes, peak_bytes, again_left, cache, granule, work }
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
    if tick::is_walking() && !keeper::is_active() {
        errno::preserve(|| tick::walk(Reach::Quiet));
    }
}

#[cold]
fn return_some() {
    if PASS.is_done() {
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
    let has_fallen = look.is_quarter() || look.falls_on();
    if !has_fallen || !look.is_much_unused() || look.is_too_soon() {
        return;
    }
    PASS.work.set(look.work());
    if look.is_quarter() {
        pass(look.in_use_bytes);
    } else {
        PASS.again_left.sub_to_zero(1);
        PASS.granule.set(0);
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
        usage::begin_drop();
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

    /// True if pages may be discarded again: without a keeper, in use goes on to fall after a pass.
    fn falls_on(&self) -> bool {
        !self.has_keeper && PASS.again_left.get() != 0 && !self.has_grown()
    }

    fn is_much_unused(&self) -> bool {
        let bytes_max = UNUSED_BYTES_MAX.max(self.in_use_bytes / 4);
        self.unused_bytes > bytes_max && keeper::decay_ms().is_some()
    }

    /// The most work of a piece: the less is in use, the fewer frees are left for the whole walk.
    fn work(&self) -> usize {
        let times_unused = self.unused_bytes / self.in_use_bytes.max(1);
        WORK_MIN + WORK_MORE * times_unused.min(TIMES_UNUSED_MAX)
    }

    /// True if there was a pass a short time ago and what was in use has grown since then.
    fn is_too_soon(&self) -> bool {
        let apart_ms = if self.has_keeper { APART_KEPT_MS } else { APART_MS };
        let since_ms = (clock::coarse_ms() as usize).saturating_sub(PASS.ms.get());
        self.has_grown() && since_ms < apart_ms
    }

    /// True if what was in use has doubled since the last pass, or there was none.
    fn has_grown(&self) -> bool {
        self.peak_bytes / 2 > PASS.in_use_bytes.get()
    }
}

/// The library's thread is to flush depots, and the sheaves of other slots.
static IS_TO_SWEEP: Hint = Hint::new(0);

/// A pass, but for what is done in pieces.
fn pass(in_use_bytes: usize) {
    PASS.again_left.set(AGAIN_MAX);
    PASS.ms.set(clock::coarse_ms() as usize);
    PASS.in_use_bytes.set(in_use_bytes);
    PASS.peak_bytes.set(in_use_bytes);
    tick::flush_slots(Reach::Quiet);
    registry::map_existing(|id| id.descriptor().depot.restrict(id.shape())).for_each(drop);
    IS_TO_SWEEP.set(1);
    if !internal::request_sweep() {
        PASS.cache.set(0);
    } else if !keeper::is_active() {
        PASS.granule.set(0);
    }
}

/// For the library's thread: the part of a pass that is left to it.
pub(crate) fn sweep() {
    if IS_TO_SWEEP.swap(0) != 0 {
        tick::flush_slots(Reach::Interrupts);
        registry::all_ids().for_each(tick::flush_depot);
        chunk::do_due_after_free();
    }
}

/// The work of a piece is counted in looks at a granule, of up to 100 ns each: this much, and more
/// for each time that what is unused is as large as what is in use.
const WORK_MIN: usize = 4096;
const WORK_MORE: usize = 128;
const TIMES_UNUSED_MAX: usize = 64;
const WORK_OF_OBJECT: usize = 2;
const WORK_OF_PAGE: usize = 12;

fn flush_piece() {
    let (mut number, mut work) = (PASS.cache.get(), 0);
    while work < PASS.work.get() && number < registry::numbers_used() {
        let flush_one = |id: CacheId| flush::flush_depot(id, 1);
        match if_existing(CacheId::new(number as u16), flush_one).unwrap_or(0) {
            0 => number += 1,
            objects => work += objects * WORK_OF_OBJECT,
        }
    }
    let is_done = number >= registry::numbers_used();
    PASS.cache.set(if is_done { DONE } else { number });
    if is_done && !keeper::is_active() {
        PASS.granule.set(0);
    }
    chunk::do_due_after_free();
}

fn discard_piece() {
    let begin = PASS.granule.get();
    let (before, mut count) = (slab::holes_bytes(), 0);
    for granule in granule::all().skip(begin) {
        count += 1;
        if granule.entry() != 0 && has_new_holes(slab::header(granule)) {
            tick::discard_holes(granule);
        }
        let pages = (slab::holes_bytes() - before) as usize / map::page_bytes();
        if count + pages * WORK_OF_PAGE >= PASS.work.get() {
            break;
        }
    }
    PASS.granule.set(if count == 0 { DONE } else { begin + count });
}

/// True if objects of the slab became free since its holes were discarded. The first of two ticks
/// may only note their number.
fn has_new_holes(slab: &Slab) -> bool {
    (0..2).any(|_| slab.tick_holes() == Holes::Unchanged)
}
