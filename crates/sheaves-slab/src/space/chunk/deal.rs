//! Does what is due about unused memory, at the end of slow paths, where no lock is held; answers
//! tools.

use sheaves_rcu::defer;
use sheaves_rcu::internal::{self, keeper};
use sheaves_sys::{clock, errno, request, tls};

use super::discard::{Free, PIECE_GRANULES, discard_in_chunk};
use super::due::{self, AT_ALLOC, GONE, KEEP, LIMIT, START, SURPLUS, SWEEP, TICK};
use super::state::{CHUNKS, Chunks};
use crate::space::hint::Hint;
use crate::space::limit;
use crate::space::window::GRANULE_BYTES;

/// Without a keeper, this many bytes may be free and hold old contents, or a quarter of those in
/// use.
const DIRTY_BYTES_MAX: usize = 8 << 20;
/// What is above that goes back in pieces of [`PIECE_GRANULES`] or twice what was freed, up to 1.5
/// MiB, which take 0.1 ms. A piece looks at this many chunks at most.
const PIECE_GRANULES_MAX: usize = 24;
const PIECE_CHUNKS: usize = 64;
/// Granules that were freed while there was too much, and half of what pieces have returned less.
static FREED: Hint = Hint::new(0);
/// Fewer granules are not worth a keeper.
const MUCH: usize = (1 << 20) / GRANULE_BYTES;

/// Called when a run of that many granules was freed.
pub(super) fn note_freed(chunks: &mut Chunks, count: usize) {
    if chunks.dirty >= MUCH {
        due::note_unused(chunks.dirty * GRANULE_BYTES);
    }
    let is_much = chunks.dirty > dirty_max(chunks);
    if is_kept_now(is_much) {
        return;
    }
    if is_much && may_go_back(chunks) {
        FREED.add(count);
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

/// True without a keeper if what is too much goes back now.
fn may_go_back(chunks: &mut Chunks) -> bool {
    let in_use = chunks.used;
    chunks.falls.may_go_back(in_use)
}

/// True if a program without a keeper fills again what it has emptied a short time ago.
pub(crate) fn is_filled_again() -> bool {
    !may_go_back(&mut CHUNKS.lock())
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
    if due::pending(!AT_ALLOC) != 0 {
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
            if due::take(due & SWEEP) != 0 && internal::leave_to_reclaimer(true) {
                internal::request_sweep();
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
    if due::pending(!AT_ALLOC) == 0 {
        return;
    }
    let due = due::take(!AT_ALLOC);
    if due & GONE != 0 {
        free_in_progress_of_gone();
    }
    if due & LIMIT != 0 && limit::begin() {
        if internal::reclaimer_thread().is_some() {
            defer::flush();
        }
        internal::trim();
        limit::end();
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

/// Called in the child after a fork: frees the granules that threads missing in the child were
/// working on. They may hold old contents.
pub(crate) fn free_in_progress_of_gone() {
    // If a handler has forked that had interrupted a holder of the lock, it is still taken.
    let Some(mut chunks) = CHUNKS.try_lock() else { return due::note(GONE) };
    loop {
        let Some(entry) = chunks.in_progress.of_gone().next() else { return };
        entry.thread = 0;
        let (index, granules) = (entry.index, entry.granules);
        chunks.give(index, granules, false);
    }
}

/// Discards a piece of what is dirty, as far as that is too much. Goes down from where the last one
/// ended, over [`PIECE_CHUNKS`] at the most.
fn discard_surplus() {
    let most = (2 * FREED.get()).clamp(PIECE_GRANULES, PIECE_GRANULES_MAX);
    FREED.sub_to_zero(most / 2);
    let mut granules = 0;
    for _ in 0..PIECE_CHUNKS {
        let index = CHUNKS.lock().discard_next;
        granules += discard_in_chunk(index, Free::Dirty, most - granules);
        let mut chunks = CHUNKS.lock();
        if chunks.dirty <= dirty_max(&chunks) || !may_go_back(&mut chunks) {
            return;
        }
        if granules >= most {
            break;
        }
        chunks.discard_next = index.checked_sub(1).unwrap_or(chunks.count - 1);
    }
    due::note(SURPLUS);
}
