//! Grace periods of the default domain: who leads one, and in which steps.
//!
//! ```text
//! 0  begin       started = n; requests from now on belong to n + 1
//! 1  membarrier  every thread passes a full fence, unless all do so anyway, see `fences`
//! 2  advance     readers that begin from now on copy a new sequence
//! 3  scan        until each reader's word is idle or carries that sequence
//! 4  complete    full fence, completed = n, wake the generation
//! ```
//!
//! Why that suffices. An updater has unlinked something before it got number n, so before the
//! fence of step 0. Take any section, and the point P of its thread at which step 1 made it pass a
//! fence.
//!
//! - If the section reads after P, it sees what the updater did, and does not have the old thing.
//! - If it has read before P, then it stored its word before P, too, since the compiler keeps that
//!   order, and copied the sequence even before. That sequence is an old one: the new one was
//!   stored after step 1, so after P. Step 3 therefore finds in the word an old sequence, and
//!   waits, or what comes later in the same thread: then the section is over, and the Acquire of
//!   the scan makes all of it happen before step 4. For that the outermost lock is a Release, like
//!   the unlock: what the scan meets may be the word of the next section.
//! - The first sections of a thread fence themselves: steps 1 to 3 see the thread, or its section
//!   reads what updaters left.
//! - A section of a signal handler inside another one has that one's word. Where that is not stored
//!   yet, the handler's section is an outermost one; where it is, it was stored before the handler
//!   read anything, and the handler's own fence is P if the word asks for one.
//!
//! The advance must not come before the membarrier: a section could copy the new sequence and read
//! old data before P. And it is the membarrier in the middle that makes one scan enough: with the
//! new sequence in its word a section reads after P. Where membarrier is refused the same holds
//! with P being the reader's own fence.
//!
//! There is no thread for this. Whoever waits leads, if nobody does; others sleep. Whoever polls
//! leads without waiting, and stops in the middle if a reader is in the way. At most one
//! membarrier is under way in a process.
//!
//! | state | written by | meaning |
//! |---|---|---|
//! | `SCANNING` | the leader | steps 1 and 2 are done for the grace period that is under way |
//! | `CURSOR`, `LIMIT` | the leader | records below the cursor have passed; where the scan ends |
//! | `BEGAN_NS` | the leader | when step 0 was |

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use sheaves_sys::{clock, fork, futex, process, report, thread};

use crate::expedite::{self, Urgency};
use crate::fences::{self, Readers};
use crate::generation::{Generations, Sleep};
use crate::mode::{Mode, Pause, heavy_fence, mode};
use crate::reader::{self, GLOBAL};
use crate::registry::{self, OVERFLOW};
use crate::stall::{self, SHARED};
use crate::word;

pub(crate) static GENERATIONS: Generations = Generations::new();

static SCANNING: AtomicBool = AtomicBool::new(false);
static CURSOR: AtomicU32 = AtomicU32::new(0);
static LIMIT: AtomicU32 = AtomicU32::new(0);
static BEGAN_NS: AtomicU64 = AtomicU64::new(0);
/// Membarriers of this domain so far.
static FENCES: AtomicU64 = AtomicU64::new(0);

/// Rounds of spinning before a waiter that is not the leader sleeps.
const SPINS: u32 = 200;
/// After this time a sleeper looks again, see `generation`.
const SLEEP_NS: u64 = 100_000_000;
/// Rounds of spinning on a reader, then of giving way, before the leader sleeps.
const SCAN_SPINS: u32 = 200;
const SCAN_YIELDS: u32 = 20;
/// Shortest and longest sleep between two looks at a reader.
const NAP_NS: u64 = 10_000;
const NAP_NS_MAX: u64 = 1_000_000;

/// The calling thread is inside a read section, for which it would wait for ever, or in the
/// function of [`crate::stall::set_callback`], whose caller leads the grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsideReader;

impl core::fmt::Display for InsideReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("waiting for readers inside a read section would deadlock")
    }
}

impl core::error::Error for InsideReader {}

/// Threads sleep on futexes.
pub(crate) struct Futex;

impl Sleep for Futex {
    fn wait(&self, word: &AtomicU32, expected: u32) {
        futex::wait_for(word, expected, SLEEP_NS);
    }
    fn wake_one(&self, word: &AtomicU32) -> bool {
        futex::wake(word, 1) != 0
    }
    fn wake_all(&self, word: &AtomicU32) {
        futex::wake_all(word);
    }
}

/// The number of the next grace period, for the caller, whose fence is noted. Async-signal-safe.
#[inline]
pub(crate) fn next() -> u64 {
    let begun = GENERATIONS.begun();
    let number = GENERATIONS.next();
    if let Some(own) = registry::own() {
        fences::note(own, begun);
    }
    number
}

/// The lead, until this is dropped: also when the program's function for stalls panics.
struct Lead<'a>(&'a Generations);

impl<'a> Lead<'a> {
    /// The lead if nobody has it. Never waits.
    fn take(generations: &'a Generations) -> Option<Lead<'a>> {
        // A child must not wait for threads of its parent.
        fork::settle();
        // Made only then: dropping one gives the lead back.
        generations.try_lead().then(|| Lead(generations))
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.hand_over(&Futex);
    }
}

/// Would the calling thread wait for ever if it waited for readers? It does inside a read section,
/// and in the function for stalls, which a leader calls.
pub(crate) fn waits_for_itself() -> bool {
    reader::is_reading() || stall::is_calling_here()
}

/// Refuses, with a line, to wait where that would be for ever.
pub(crate) fn refuse_inside_reader() -> Result<(), InsideReader> {
    if waits_for_itself() {
        let thread = thread::id();
        report::report(format_args!(
            "rcu: thread {thread} is inside a read section: waiting for readers would deadlock"
        ));
        return Err(InsideReader);
    }
    Ok(())
}

/// Waits until a grace period is over, and leads it if no other thread leads.
///
/// A waiter that finds the lead free takes it: without readers in the way it returns within a tenth
/// of a microsecond. One that finds it taken spins briefly, then sleeps with its generation, which
/// the leader wakes by one system call. Then it hands over to one sleeper of the next generation.
pub(crate) fn wait_for(number: u64, urgency: Urgency) {
    if urgency == Urgency::Expedited {
        expedite::want_at_once(number);
    }
    wait_on(&GENERATIONS, number, || lead_until(number, urgency));
}

/// [`wait_for`] in any domain, whose grace period `lead` leads: false where the heavy fence is
/// refused to this thread.
pub(crate) fn wait_on(generations: &Generations, number: u64, lead: impl Fn() -> bool) {
    let mut pause = Pause::new();
    while !generations.is_complete(number) {
        if let Some(leading) = Lead::take(generations) {
            let is_refused = !lead();
            drop(leading);
            if is_refused {
                pause.wait();
            }
        } else if !spin(generations, number) {
            fences::enter_idle();
            generations.sleep(number, &Futex);
        }
    }
}

/// Spins until the grace period is over or the lead is free; false where that takes too long.
fn spin(generations: &Generations, number: u64) -> bool {
    (0..SPINS).any(|_| {
        core::hint::spin_loop();
        generations.is_complete(number) || !generations.is_led()
    })
}

/// The leader's work until a grace period is over: that one, and one that was under way before.
/// False where the heavy fence is refused to this thread.
fn lead_until(number: u64, urgency: Urgency) -> bool {
    while !GENERATIONS.is_complete(number) {
        let led = begin();
        if !fence_those_who_did_not(led, true) {
            return false;
        }
        wait_for_readers(urgency);
        finish(led);
    }
    true
}

/// Leads as far as it goes without waiting; nothing when somebody else leads.
///
/// Async-signal-safe.
pub(crate) fn drive(number: u64, urgency: Urgency) {
    let Some(_lead) = Lead::take(&GENERATIONS) else { return };
    // Twice at most: what was under way, and the one that is asked about.
    while !GENERATIONS.is_complete(number)
        && (GENERATIONS.under_way().is_some() || expedite::may_begin(urgency, began_ns()))
    {
        let led = begin();
        if !fence_those_who_did_not(led, expedite::hurries(urgency)) {
            break;
        }
        if let Some(record) = first_in_the_way() {
            // Relaxed: the leader's own.
            stall::look(record, began_ns(), GLOBAL.0.load(Ordering::Relaxed));
            break;
        }
        finish(led);
    }
}

/// Step 0, if it is still to be done: the number of what is under way.
fn begin() -> u64 {
    GENERATIONS.under_way().unwrap_or_else(|| {
        let number = GENERATIONS.begin();
        // Relaxed: what leaders alone write passes between them with the lead.
        BEGAN_NS.store(clock::fine_ns(), Ordering::Relaxed);
        number
    })
}

/// Steps 1 and 2, if they are still to be done. False where somebody is likely to pass a fence
/// soon, and nobody is in a hurry, or where the heavy fence is refused to this thread.
fn fence_those_who_did_not(number: u64, hurries: bool) -> bool {
    // Relaxed, here and below: what leaders alone write passes between them with the lead.
    if SCANNING.load(Ordering::Relaxed) {
        return true;
    }
    if let Some(own) = registry::own() {
        // SeqCst: the leader's own fence, as any other thread's. [R6]
        fence(Ordering::SeqCst);
        fences::note(own, number);
    }
    let has_membarrier = mode() == Mode::Membarrier;
    let readers = if has_membarrier { fences::look(number) } else { Readers::Unfenced };
    if readers == Readers::Unfenced {
        if !hurries && has_membarrier && fences::has_patience(began_ns()) {
            return false;
        }
        if !heavy_fence() {
            return false;
        }
        FENCES.fetch_add(1, Ordering::Relaxed);
    }
    fences::note_interrupted(readers == Readers::Unfenced);
    let count = registry::count();
    let is_over = readers == Readers::Gone;
    if !is_over {
        let global = GLOBAL.0.load(Ordering::Relaxed).wrapping_add(word::STEP);
        // Relaxed: no reader may rely on the order of this store, see above.
        GLOBAL.0.store(global, Ordering::Relaxed);
    }
    CURSOR.store(if is_over { count } else { 0 }, Ordering::Relaxed);
    LIMIT.store(count, Ordering::Relaxed);
    SCANNING.store(true, Ordering::Relaxed);
    true
}

/// Step 3, once: the number of the first record that has not passed, [`SHARED`] for [`OVERFLOW`].
fn first_in_the_way() -> Option<u32> {
    // Relaxed, here and below: what leaders alone write passes between them with the lead.
    let global = GLOBAL.0.load(Ordering::Relaxed);
    let limit = LIMIT.load(Ordering::Relaxed);
    let begin = CURSOR.load(Ordering::Relaxed);
    for number in begin..limit {
        // Acquire pairs with the Release of the unlock: the section is over. [R4]
        let word = registry::record(number).word.load(Ordering::Acquire);
        if !word::has_passed(word, global) {
            CURSOR.store(number, Ordering::Relaxed);
            return Some(number);
        }
    }
    CURSOR.store(limit, Ordering::Relaxed);
    // Acquire pairs with the Release of the unlock. [R4]
    (OVERFLOW.load(Ordering::Acquire) != 0).then_some(SHARED)
}

/// Step 3 until every reader has passed.
fn wait_for_readers(urgency: Urgency) {
    let mut rounds = 0_u32;
    let patience = if expedite::is_urgent(urgency) { 4 * SCAN_SPINS } else { SCAN_SPINS };
    while let Some(record) = first_in_the_way() {
        rounds = rounds.saturating_add(1);
        if rounds < patience {
            core::hint::spin_loop();
        } else if rounds < patience + SCAN_YIELDS {
            process::sched_yield();
        } else {
            // Relaxed: the leader's own.
            stall::look(record, began_ns(), GLOBAL.0.load(Ordering::Relaxed));
            let waited = clock::fine_ns().saturating_sub(began_ns());
            thread::sleep_ns((waited / 8).clamp(NAP_NS, NAP_NS_MAX));
        }
    }
}

/// Step 4.
fn finish(number: u64) {
    // Relaxed: the leader's own.
    SCANNING.store(false, Ordering::Relaxed);
    GENERATIONS.complete(number, &Futex);
}

fn began_ns() -> u64 {
    // Relaxed: the leader's own.
    BEGAN_NS.load(Ordering::Relaxed)
}

/// What grace periods have cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Grace periods that are over.
    pub grace_periods: u64,
    /// Membarriers, or fences in their place, that were used for them: none where every thread that
    /// reads had passed a fence anyway.
    pub membarriers: u64,
    /// Threads that have a record, and records that wait for one.
    pub records: u32,
    /// Readers use fences: membarrier is refused, or `SHEAVES_RCU_FENCES` is set.
    pub readers_fence: bool,
}

/// What grace periods of the default domain have cost so far. Async-signal-safe.
#[must_use]
pub fn statistics() -> Statistics {
    Statistics {
        grace_periods: GENERATIONS.completed(),
        // Relaxed: a number for reports.
        membarriers: FENCES.load(Ordering::Relaxed),
        records: registry::count(),
        readers_fence: mode() == Mode::Fences,
    }
}

/// In the child of a fork: a grace period that was under way begins anew, with its number, unless
/// the thread that forked leads it. Then a handler of it has forked, and it goes on afterwards.
pub(crate) fn restart_in_child() {
    if !GENERATIONS.is_led_here() {
        // Relaxed: the child has one thread.
        SCANNING.store(false, Ordering::Relaxed);
        GENERATIONS.restart_in_child();
    }
}
