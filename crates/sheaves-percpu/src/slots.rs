//! Installs the slots' blocks, and drains words of all slots from outside.
//!
//! The slots lock covers the table of bases, the number of words in use, and drains. It is held for
//! microseconds, and nothing is allocated under it.

use sheaves_sys::lock::{Held, Lock};
use sheaves_sys::membarrier::{self, Reach};
use sheaves_sys::topology::{Affinity, CPUS_MAX};
use sheaves_sys::{fork, rseq, sandbox, tls};

use crate::engine::{self, EngineMode, SlotKind};
use crate::sheaf::{Cursor, DRAINED_WORDS_MAX, Taken};
use crate::word::{Region, RowWord, Word};
use crate::{rows, table};

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The slots lock: guards changes of the table, of [`INITIALISED`] and of [`INSTALLED`], and the
/// opening of rows.
#[unsafe(link_section = ".sheaves_load")]
pub(crate) static SLOTS: Lock<()> = Lock::new(());

/// How many words of each region, from its first on, are initialised in every installed block, and
/// in the bootstrap block, where these are more than [`Region::at_start`].
#[unsafe(link_section = ".sheaves_load")]
static INITIALISED: [AtomicUsize; Region::ALL.len()] =
    [const { AtomicUsize::new(0) }; Region::ALL.len()];

/// One bit per slot: its block has been installed. A drain may have detached it.
static INSTALLED: [AtomicUsize; CPUS_MAX / 64] = [const { AtomicUsize::new(0) }; CPUS_MAX / 64];

/// Ensures that the calling thread has a slot with a block: registers the thread if libc did not,
/// and installs the block. May sleep on the slots lock for microseconds. Never allocates. False
/// before the engine's start, where registration is refused for the thread, or when memory is out:
/// then it goes on without.
pub fn attach() -> bool {
    attach_by(|| Some(SLOTS.lock()))
}

/// [`attach`] without waiting: false instead. Async-signal-safe.
pub(crate) fn attach_at_once() -> bool {
    attach_by(|| SLOTS.try_lock())
}

fn attach_by(lock: impl FnOnce() -> Option<Held<'static, ()>>) -> bool {
    if engine::mode() == EngineMode::NotStarted {
        return false;
    }
    fork::note_use();
    let mut slot = engine::current_slot();
    if slot < 0 && register_own_area() {
        slot = engine::current_slot();
    }
    let Ok(index) = usize::try_from(slot) else { return false };
    let has_block = || table::current_block(slot) != table::bootstrap();
    index < rows::slot_count() && (has_block() || lock().is_some_and(|_slots| install(index)))
}

/// Installs a slot's block. False when memory is out. Under the slots lock.
#[cold]
fn install(index: usize) -> bool {
    if table::current_block(index as i32) != table::bootstrap() {
        return true;
    }
    if !rows::open(index) {
        return false;
    }
    let block = rows::row(index);
    // The Release in `set_block` publishes this.
    vacate(block, initialised_words());
    // Release pairs with the Acquire in `installed_indexes`: the row is open.
    INSTALLED[index / 64].fetch_or(1 << (index % 64), Ordering::Release);
    table::set_block(index, block);
    true
}

/// Registers this project's own rseq area for the calling thread, if the engine needs it.
pub(crate) fn register_own_area() -> bool {
    let is_needed = tls::libc_rseq_offset().is_none() && engine::mode() != EngineMode::Portable;
    is_needed && rseq::register_own()
}

/// Prepares the first `words` words of a region in every block, present and future: each holds
/// [`Cursor::VACANT`] until a transaction changes it. Call it after the engine's start, and before
/// a word's number is published.
///
/// # Panics
/// When the region has fewer words.
pub fn prepare(region: Region, words: usize) {
    assert!(words <= region.words(), "{words} words of {}", region.words());
    debug_assert!(engine::mode() != EngineMode::NotStarted);
    let _slots = SLOTS.lock();
    let before = initialised_in(region);
    let new = (before..words).map(|word| region.word(word));
    // These words are not in use yet: their number is published after this call.
    new.clone().for_each(table::init_bootstrap);
    for index in installed_indexes() {
        vacate(rows::row(index), new.clone());
    }
    // Relaxed: under the slots lock.
    INITIALISED[region.index].store(before.max(words), Ordering::Relaxed);
}

fn vacate(block: usize, words: impl Iterator<Item = Word>) {
    for word in words {
        // Relaxed: callers ensure that no thread uses these words before they are vacant.
        word.in_block(block).store(Cursor::VACANT.bits(), Ordering::Relaxed);
    }
}

/// Number of words of a region that are initialised. Under the slots lock.
fn initialised_in(region: Region) -> usize {
    // Relaxed: changes under the slots lock only.
    INITIALISED[region.index].load(Ordering::Relaxed).max(region.at_start)
}

/// All words that are initialised. Under the slots lock.
pub(crate) fn initialised_words() -> impl Iterator<Item = Word> + Clone {
    let words = |region: Region| (0..initialised_in(region)).map(move |word| region.word(word));
    Region::ALL.into_iter().flat_map(words)
}

/// Slots that have a block, even if a drain has detached it. Without the slots lock the set may
/// grow.
#[inline]
pub(crate) fn installed_indexes() -> impl Iterator<Item = usize> {
    // Acquire pairs with the Release in `install`.
    rows::set_bits(|word| INSTALLED[word].load(Ordering::Acquire), rows::slot_count())
}

/// From now on [`crate::internal::pop_source`], which is given the first of two words, takes
/// objects from the second one, or from the first again. A transaction that has begun may go on
/// with the other one: a drain ends it.
pub fn set_source(is_second: bool) {
    let _slots = SLOTS.lock();
    table::set_source(is_second);
    installed_indexes().for_each(|slot| table::set_block(slot, rows::row(slot)));
}

/// Number of slots that threads have used.
pub fn slots_used() -> usize {
    installed_indexes().count()
}

/// Whether a drain wants the cursor of a word: index of the word among the drained ones, slot,
/// cursor. It runs under the slots lock or not, and must not allocate or use transactions.
type Wanted<'a> = &'a dyn Fn(usize, usize, Cursor) -> bool;

/// Every cursor is wanted.
pub const ALL: Wanted<'static> = &|_, _, _| true;

/// Takes the wanted cursors of `words` out of every slot and leaves [`Cursor::VACANT`]. Calls
/// `take` with the word's index in `words` and the cursor of each sheaf.
///
/// Afterwards the caller owns every wanted sheaf that was in these words when the call began. False
/// when some slot could not be reached (no fence and no affinity): its values stay in place. `take`
/// runs under the slots lock, so it must not allocate or use transactions. Interrupts the CPUs that
/// run this process once.
pub fn drain(words: &[Word], wanted: Wanted<'_>, take: &mut dyn FnMut(usize, Cursor)) -> bool {
    let facts = engine::facts();
    if facts.mode == EngineMode::NotStarted {
        // Another thread may start the rseq engine now: no slot may be emptied without its fence.
        return true;
    }
    if facts.mode != EngineMode::Rseq {
        let _slots = SLOTS.lock();
        for (index, slot, word) in each_word(words.iter().copied()) {
            // Relaxed: a hint; a cursor that has changed meanwhile may be taken, too.
            if wanted(index, slot, engine::cursor_of(word.load(Ordering::Relaxed))) {
                let cursor = engine::take_portable(word, Cursor::VACANT);
                if cursor.is_sheaf() {
                    take(index, cursor);
                }
            }
        }
        return true;
    }
    if facts.fence && drain_fenced(words, wanted, take) {
        return true;
    }
    let _slots = SLOTS.lock();
    on_each_slot(|slot| empty_own_slot(Some(slot), words, wanted, take))
}

/// [`drain`] into a list, as far as the caller may reach; with it, whether every slot was reached.
///
/// # Panics
/// With more than 64 words.
pub fn take(words: &[Word], reach: Reach, wanted: Wanted<'_>) -> (Taken, bool) {
    assert!(words.len() <= DRAINED_WORDS_MAX);
    let mut taken = Taken::new();
    // SAFETY: by the drain the sheaf is this call's.
    let add = &mut |index, cursor| unsafe { taken.add(index, cursor) };
    // The portable engine makes no system call for that.
    let is_free = engine::mode() == EngineMode::Portable || !sandbox::is_entered();
    if reach == Reach::Interrupts && is_free {
        let is_complete = drain(words, wanted, add);
        return (taken, is_complete);
    }
    empty_own_slot(None, words, wanted, add);
    let mut is_complete = true;
    observe(words, &mut |index, slot, cursor| {
        is_complete &= cursor.is_empty() || !wanted(index, slot, cursor);
    });
    (taken, is_complete)
}

/// [`take`] of everything in the child of a fork, without a system call: it has one thread, and a
/// handler that forks has aborted that thread's rseq critical section. Nothing is taken if it may
/// have interrupted a transaction of the portable engine, which goes on in the child.
pub fn take_in_child(words: &[Word]) -> Taken {
    assert!(words.len() <= DRAINED_WORDS_MAX);
    let mut taken = Taken::new();
    // Relaxed, here and below: the child has one thread.
    if !IS_INTERRUPTED.load(Ordering::Relaxed) {
        let _slots = SLOTS.lock();
        for (index, _, word) in each_word(words.iter().copied()) {
            let cursor = Cursor::of_word(word.load(Ordering::Relaxed));
            if cursor.is_sheaf() {
                word.store(Cursor::VACANT.bits(), Ordering::Relaxed);
                // SAFETY: taken out of its only word.
                unsafe { taken.add(index, cursor) };
            }
        }
    }
    taken
}

/// Empties the words of the slot that the thread is on, by transactions. With `only`, false once
/// that is another slot.
fn empty_own_slot(
    only: Option<usize>,
    words: &[Word],
    wanted: Wanted<'_>,
    take: &mut dyn FnMut(usize, Cursor),
) -> bool {
    for (index, word) in words.iter().enumerate() {
        loop {
            let slot = usize::try_from(engine::current_slot()).ok();
            if only.is_some() && slot != only {
                return false;
            }
            let cursor = engine::load(*word);
            if !cursor.is_sheaf() || !wanted(index, slot.unwrap_or(0), cursor) {
                break;
            }
            // SAFETY: not the bootstrap cursor.
            if unsafe { engine::cmp_store(*word, cursor, Cursor::VACANT) } {
                take(index, cursor);
                break;
            }
        }
    }
    true
}

/// Each of `words` in every block: the word's index, the slot, and the word there. Under the slots
/// lock.
fn each_word(
    words: impl Iterator<Item = Word> + Clone,
) -> impl Iterator<Item = (usize, usize, &'static AtomicUsize)> {
    installed_indexes().flat_map(move |slot| {
        let words = words.clone().enumerate();
        words.map(move |(index, word)| (index, slot, word.in_block(rows::row(slot))))
    })
}

/// Detaches every block, fences, and empties the words while no rseq critical section can commit to
/// them.
fn drain_fenced(words: &[Word], wanted: Wanted<'_>, take: &mut dyn FnMut(usize, Cursor)) -> bool {
    let _slots = SLOTS.lock();
    for slot in installed_indexes() {
        // The fence orders this before every later rseq critical section.
        table::set_block(slot, table::bootstrap());
    }
    let fenced = membarrier::abort_sections();
    for (index, slot, word) in each_word(words.iter().copied()).filter(|_| fenced) {
        // Relaxed, both: the fence ordered all earlier rseq critical sections before this, and no
        // later one can reach the block until it is back in the table.
        let cursor = Cursor::of_word(word.load(Ordering::Relaxed));
        if cursor.is_sheaf() && wanted(index, slot, cursor) {
            word.store(Cursor::VACANT.bits(), Ordering::Relaxed);
            take(index, cursor);
        }
    }
    installed_indexes().for_each(|slot| table::set_block(slot, rows::row(slot)));
    fenced
}

/// The thread that has forked this process was inside a transaction of the portable engine, or a
/// thread with the same tag was. Written in the child.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// In the child of a fork: ends what other threads were doing with words. Under the slots lock.
pub(crate) fn start_child() {
    if engine::mode() == EngineMode::Portable {
        let words = each_word(initialised_words());
        let is_interrupted =
            words.fold(false, |any, (_, _, word)| any | engine::check_in_of_others(word));
        sheaves_sys::restart_word!(IS_INTERRUPTED, is_interrupted);
    }
}

/// Replaces the fence: runs on each slot's CPU in turn, which ends all critical sections there, and
/// calls `visit`. False if a CPU was not reached or `visit` failed, and in a sandbox, which may not
/// permit the calls. Under the slots lock.
fn on_each_slot(mut visit: impl FnMut(usize) -> bool) -> bool {
    if engine::facts().slot_kind != SlotKind::CpuId || sandbox::is_entered() {
        return false;
    }
    let Some(before) = Affinity::current() else { return false };
    if engine::current_slot() < 0 {
        // This may be the thread's first step.
        let _ = register_own_area();
    }
    let mut complete = true;
    for slot in installed_indexes() {
        let bound = Affinity::only(slot).is_some_and(|only| only.bind());
        complete &= bound && visit(slot);
    }
    complete & before.bind()
}

/// Stops all additions to a word of a guarded object, and takes the word's values.
///
/// The caller has set the guard. `None`, with nothing taken, when some slot could not be reached
/// (no fence and no affinity). Interrupts the CPUs that run this process once.
pub(crate) fn close(word: RowWord) -> Option<usize> {
    let _slots = SLOTS.lock();
    let facts = engine::facts();
    let (is_quiet, left) = match facts.mode {
        EngineMode::Rseq => {
            ((facts.fence && membarrier::abort_sections()) || on_each_slot(|_| true), 0)
        }
        _ => (true, engine::rows::CLOSED),
    };
    is_quiet.then(|| {
        let take = |slot| {
            // AcqRel: in the portable engine it pairs with the AcqRel of additions, which then find
            // the word closed. With rseq, the fence has ordered everything.
            word.in_row(rows::row(slot)).swap(left, Ordering::AcqRel)
        };
        installed_indexes().map(take).fold(0, usize::wrapping_add)
    })
}

/// Undoes [`close`]. The caller clears the guard afterwards.
pub(crate) fn reopen(word: RowWord) {
    let _slots = SLOTS.lock();
    for slot in installed_indexes() {
        // Relaxed: published by the Release with which the guard is cleared.
        word.in_row(rows::row(slot)).store(0, Ordering::Relaxed);
    }
}

/// Reads the words of all slots without taking them. Calls `see` with the word's index in `words`,
/// the slot, and the cursor of each sheaf. Values may be outdated.
pub fn observe(words: &[Word], see: &mut dyn FnMut(usize, usize, Cursor)) {
    let _slots = SLOTS.lock();
    for (index, slot, word) in each_word(words.iter().copied()) {
        // Relaxed: statistics; the sheaf is not used.
        let cursor = engine::cursor_of(word.load(Ordering::Relaxed));
        if cursor.is_sheaf() {
            see(index, slot, cursor);
        }
    }
}
