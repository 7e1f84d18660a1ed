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
/// | `next` | the granule at which to go on, counted from the heap's first | with each piece |
struct Pass {
    ms: Hint,
    in_use_bytes: Hint,
    peak_bytes: Hint,
    again_left: Hint,
    next: Hint,
}

static PASS: Pass = {
    let [ms, in_use_bytes, peak_bytes, again_left] = [const { Hint::new(0) }; 4];
    Pass { ms, in_use_bytes, peak_bytes, again_left, next: Hint::new(DONE) }
};

/// The value of `next` when there are no pages to discard.
const DONE: usize = usize::MAX;
/// The next look is due after a drop of this many bytes.
static DROP_BYTES_DUE: Hint = Hint::new(DROP_BYTES_MIN);

/// Called at the end of slow paths that free, without a lock: has unused memory returned to the
/// kernel if it is time.
#[inline]
pub(crate) fn after_free() {
    chunk::do_due_after_free();
    if usage::drop_bytes() >= DROP_BYTES_DUE.get() || PASS.next.get() != DONE {
        errno::preserve(return_some);
    }
    if tick::is_walking() && !keeper::is_active() {
        errno::preserve(|| tick::walk(Reach::Quiet));
    }
}

#[cold]
fn return_some() {
    if PASS.next.get() != DONE || begin() {
        discard_piece();
    }
}

/// Looks at what is in use, and begins what is due. True if pages are to be discarded.
fn begin() -> bool {
    let look = Look::new();
    DROP_BYTES_DUE.set(look.drop_bytes_due().max(DROP_BYTES_MIN));
    chunk::note_unused(look.unused_bytes);
    let has_fallen = look.is_quarter() || look.falls_on();
    if !has_fallen || !look.is_much_unused() || look.is_too_soon() {
        return false;
    }
    if !look.is_quarter() {
        PASS.again_left.sub_to_zero(1);
    } else if pass(look.in_use_bytes) {
        return false;
    }
    PASS.next.set(0);
    true
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

/// The sheaves of other slots are to be flushed, too.
static FLUSHES_OTHERS: Hint = Hint::new(0);

/// A pass, but for the pages. True if these are left to the keeper.
fn pass(in_use_bytes: usize) -> bool {
    PASS.again_left.set(AGAIN_MAX);
    PASS.ms.set(clock::coarse_ms() as usize);
    PASS.in_use_bytes.set(in_use_bytes);
    PASS.peak_bytes.set(in_use_bytes);
    tick::flush_slots(Reach::Quiet);
    FLUSHES_OTHERS.set(1);
    internal::request_sweep();
    for id in registry::map_existing(|id| id) {
        registry::if_existing(id, |id| id.descriptor().depot.restrict(id.shape()));
        tick::flush_depot(id);
    }
    chunk::do_due_after_free();
    keeper::is_active()
}

/// For the library's thread: the part of a pass that is in other slots.
pub(crate) fn sweep() {
    if FLUSHES_OTHERS.swap(0) != 0 {
        tick::flush_slots(Reach::Interrupts);
    }
}

/// A piece discards about this many bytes at most, and visits this many granules at most.
const PIECE_BYTES: u64 = 8 << 20;
const PIECE_GRANULES: usize = 2048;

fn discard_piece() {
    let begin = PASS.next.get();
    let (before, mut count) = (slab::holes_bytes(), 0);
    for granule in granule::all().skip(begin).take(PIECE_GRANULES) {
        count += 1;
        if granule.entry() != 0 && has_new_holes(slab::header(granule)) {
            tick::discard_holes(granule);
        }
        if slab::holes_bytes() - before >= PIECE_BYTES {
            break;
        }
    }
    PASS.next.set(if count == 0 { DONE } else { begin + count });
}

/// True if objects of the slab became free since its holes were discarded. The first of two ticks
/// may only note their number.
fn has_new_holes(slab: &Slab) -> bool {
    (0..2).any(|_| slab.tick_holes() == Holes::Unchanged)
}
