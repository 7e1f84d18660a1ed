//! Does what is due about unused memory, at the end of slow paths, where no lock is held; answers
//! tools.

use sheaves_rcu::defer;
use sheaves_rcu::internal::{self, keeper};
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, errno, request, tls};

use super::discard::{Free, discard_in_chunk};
use super::due::{self, KEEP, LIMIT, START, SURPLUS, SWEEP, TICK};
use super::state::{CHUNKS, Chunks};
use crate::space::limit;
use crate::space::window::GRANULE_BYTES;

/// Without a keeper, this many bytes may be free and hold old contents, or a quarter of those in
/// use.
const DIRTY_BYTES_MAX: usize = 8 << 20;
/// What is above that goes back in pieces of this many bytes.
const PIECE_BYTES: usize = 8 << 20;
const PIECE_CHUNKS: usize = 256;
/// Less is not worth a keeper.
const MUCH_BYTES: usize = 1 << 20;
/// The same in granules.
const MUCH: usize = MUCH_BYTES / GRANULE_BYTES;

/// Called when a run was freed.
pub(super) fn note_freed(chunks: &Chunks) {
    if chunks.dirty >= MUCH {
        due::note_unused(chunks.dirty * GRANULE_BYTES);
    }
    let is_surplus = chunks.dirty > dirty_max(chunks);
    if is_kept_now(is_surplus) {
        return;
    }
    if is_surplus {
        due::note(SURPLUS);
    }
    if let Some(period_ms) = keeper::period_ms() {
        due::note_time(clock::coarse_ms(), period_ms);
    }
}

/// True if the keeper does everything. Not near the limit, and not if much has come together while
/// it was busy.
fn is_kept_now(is_much: bool) -> bool {
    keeper::is_active() && limit::decay_ms() != Some(0) && !(is_much && keeper::is_overdue())
}

/// The most granules that may be dirty without a keeper.
fn dirty_max(chunks: &Chunks) -> usize {
    match limit::decay_ms() {
        Some(0) => 0,
        Some(_) => (DIRTY_BYTES_MAX / GRANULE_BYTES).max(chunks.used / 4),
        None => usize::MAX,
    }
}

/// Returns unused memory to the kernel if it is time: the keeper does it, or the caller where there
/// is none, or near the limit. Has requests of tools answered. Called at the end of slow paths that
/// free, without a lock.
#[inline]
pub fn do_due_after_free() {
    if due::pending(!START) != 0 {
        errno::preserve(do_due);
    }
    if request::is_there() {
        answer(false);
    }
}

/// The same for slow paths that allocate. Only these start the library's thread: libc frees memory
/// under a lock that it needs to start one.
#[inline]
pub fn do_due_after_alloc() {
    let due = due::pending(!0);
    // In a process with one thread the keeper stays without a thread, whatever there is for it.
    if due != 0 && !(due == START && tls::is_single_threaded()) {
        errno::preserve(|| {
            if due & START != 0 {
                start_keeper();
            }
            if due & SWEEP != 0 {
                internal::leave_to_reclaimer(true);
            }
            do_due();
        });
    }
    if request::is_there() {
        answer(true);
    }
}

#[cold]
fn start_keeper() {
    internal::arm_keeper(true);
    if keeper::is_armed() {
        due::take(START);
    }
}

/// Passes a tool's request to the library's thread, or answers it where there can be none.
#[cold]
fn answer(may_start: bool) {
    errno::preserve(|| {
        if !internal::leave_to_reclaimer(may_start) {
            request::answer();
        }
    });
}

#[cold]
fn do_due() {
    if due::pending(!START) == 0 {
        return;
    }
    let due = due::take(!START);
    if due & LIMIT != 0 && limit::begin() {
        if internal::reclaimer_thread().is_some() {
            defer::flush();
        }
        internal::trim(Reach::Quiet);
        limit::end();
    }
    if due & SWEEP != 0 {
        internal::request_sweep();
    }
    if due & KEEP != 0 {
        internal::arm_keeper(false);
    }
    if due & TICK != 0 {
        keeper::tick_here();
    }
    if due & SURPLUS != 0 {
        discard_surplus();
    }
}

/// Discards a piece of what is dirty, as far as that is too much. Begins with the chunk to which
/// something was given last, goes down from there, and looks at [`PIECE_CHUNKS`] at most.
fn discard_surplus() {
    let (last, count) = {
        let chunks = CHUNKS.lock();
        (chunks.given_last.min(chunks.count), chunks.count)
    };
    let mut bytes = 0;
    for step in 0..count.min(PIECE_CHUNKS) {
        let index = (last + count - step) % count;
        bytes += discard_in_chunk(index, Free::Dirty);
        let mut chunks = CHUNKS.lock();
        if chunks.dirty <= dirty_max(&chunks) {
            return;
        }
        // The next piece goes on there, if nothing is given meanwhile.
        chunks.given_last = (index + count - 1) % count;
        if bytes >= PIECE_BYTES {
            break;
        }
    }
    due::note(SURPLUS);
}
