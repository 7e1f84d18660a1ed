//! Grace periods of the default domain: the steps of one, their proof, and the lead.
//!
//! ```text
//! 0  begin       started = n; later requests belong to n + 1
//! 1  membarrier  every thread passes a full fence, unless all do so anyway, see `fences`
//! 2  advance     the sequence: sections that begin later copy a new one
//! 3  scan        until each reader's state is idle or carries that sequence
//! 4  complete    full fence, completed = n, wake the generation
//! ```
//!
//! Proof. An updater unlinks an object before it gets number n, so before the fence of step 0. Take
//! any section, and the point P at which step 1 makes its thread pass a fence.
//!
//! - If the section reads after P, it sees what the updater did and does not find the old object.
//! - If it has read before P, it has also stored its state before P, since the compiler keeps that
//!   order, and has copied an old sequence: the new one is stored after P. So step 3 finds the old
//!   sequence, and waits, or a later value of the same thread. Then the section is over, and the
//!   Acquire of the scan makes all of it happen before step 4. For this the outermost lock is a
//!   Release like the unlock: the scan may read the state of the next section.
//! - The first sections of a thread fence themselves: either steps 1 to 3 see the thread, or its
//!   section reads what updaters stored.
//! - A signal handler inside a section uses the same state. If that is not stored yet, the
//!   handler's section is an outermost one. Otherwise it was stored before the handler read
//!   anything, and if it asks for a fence, the handler's own fence is P.
//!
//! If the advance came before the membarrier, a section could copy the new sequence and read old
//! data before P. As the membarrier comes first, one scan is enough. Where membarrier is refused
//! from the start, P is the reader's own fence. Where it is refused later, or not permitted to this
//! thread, P is any point between step 0 and a time at which the stores before step 0 are seen, see
//! `mode::heavy_fence`.
//!
//! There is no grace-period thread. A thread that waits leads if no other thread does; the others
//! sleep. A thread that polls leads without waiting, and stops where a reader is in the way. One
//! that frees or defers makes no system call, and leaves a membarrier to others.
//!
//! | state | written by | meaning |
//! |---|---|---|
//! | `SCANNING` | the leader | steps 1 and 2 are done for the grace period that is under way |
//! | `SCANNED`, `SCAN_END` | the leader | records below the first have passed; end of the scan |
//! | `BEGAN_NS` | the leader | the time of step 0 |

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use sheaves_sys::fork::{self, Handlers};
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, futex, probe, report, thread, tls};

use super::backoff::{Backoff, NAP_NS_MAX};
use super::expedite::{self, Urgency};
use super::stall::{self, SHARED, Stall};
use super::times;
use crate::protocol::generation::{Generations, Sleep};
use crate::protocol::reader::{Readers, STEP};
use crate::reader::fences;
use crate::reader::mode::{FenceMode, fences_by_time, heavy_fence, mode};
use crate::reader::registry::{self, OVERFLOW};
use crate::reader::section::{self, GLOBAL};

pub(crate) static GENERATIONS: Generations = Generations::new();
static SCANNING: AtomicBool = AtomicBool::new(false);
static SCANNED: AtomicU32 = AtomicU32::new(0);
static SCAN_END: AtomicU32 = AtomicU32::new(0);
static BEGAN_NS: AtomicU64 = AtomicU64::new(0);
static MEMBARRIERS: AtomicU64 = AtomicU64::new(0);

/// This domain, for probes.
const DEFAULT: usize = 0;
/// Rounds in which a waiter that does not lead spins before it sleeps.
const SPINS: u32 = 200;
/// A sleeper rechecks after this time, see `generation`.
const SLEEP_NS: u64 = 100_000_000;
/// Rounds in which the leader spins before it sleeps.
const SCAN_SPINS: u32 = 200;
/// Shortest sleep of a leader that a reader wakes.
const NAP_NS_WOKEN: u64 = 200_000;

/// Waiting would deadlock: the calling thread is inside a read section. Or it is in the function of
/// [`crate::stall::set_callback`], which is not called for the stall of another one meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsideReader;

impl core::fmt::Display for InsideReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("waiting for readers inside a read section would deadlock")
    }
}

impl core::error::Error for InsideReader {}

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

/// The number of the next grace period for the caller; notes the caller's fence. Async-signal-safe.
#[inline]
pub(crate) fn next() -> u64 {
    let begun = GENERATIONS.begun();
    let number = GENERATIONS.next();
    if let Some(own) = registry::own() {
        own.reader.note_fence(begun);
    }
    number
}

/// The lead, until this is dropped.
pub(super) struct Lead<'a>(&'a Generations);

impl<'a> Lead<'a> {
    pub(super) fn take(generations: &'a Generations) -> Option<Lead<'a>> {
        // The child of a fork must not wait for threads of its parent.
        fork::run_pending_handlers();
        // Not constructed eagerly: dropping a `Lead` gives the lead back.
        generations.try_lead().then(|| Lead(generations))
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.hand_over(&Futex);
    }
}

/// Refuses, with a line on standard error, a wait that would deadlock, see [`InsideReader`].
pub(crate) fn refuse_inside_reader() -> Result<(), InsideReader> {
    if is_inside_reader() {
        let thread = thread::id();
        report::report(format_args!(
            "rcu: thread {thread} is inside a read section: waiting for readers would deadlock"
        ));
        return Err(InsideReader);
    }
    Ok(())
}

/// True if the calling thread may not wait, see [`InsideReader`].
pub(crate) fn is_inside_reader() -> bool {
    section::is_reading() || stall::is_calling_here()
}

/// Waits until a grace period is over. Leads it if no other thread leads, within a tenth of a
/// microsecond if no reader is in the way. Otherwise spins, then sleeps with its generation.
pub(crate) fn wait_for(number: u64, urgency: Urgency) {
    if urgency == Urgency::Expedited {
        expedite::want_at_once(number);
    }
    wait_on(&GENERATIONS, number, || (), || lead_until(number, urgency));
}

/// [`wait_for`] in any domain. `lead` leads its grace periods, until there is something to report;
/// `check` is called in each round.
pub(crate) fn wait_on(
    generations: &Generations,
    number: u64,
    check: impl Fn(),
    lead: impl Fn() -> Option<Stall>,
) {
    let may_go_on = |_| {
        core::hint::spin_loop();
        generations.is_complete(number) || !generations.is_led()
    };
    while !generations.is_complete(number) {
        check();
        if let Some(leading) = Lead::take(generations) {
            let stall = lead();
            drop(leading);
            stall::report(stall);
        } else if !(0..SPINS).any(may_go_on) {
            fences::enter_idle();
            generations.sleep(number, &Futex);
        }
    }
}

/// Leads until a grace period is over, or there is something to report.
fn lead_until(number: u64, urgency: Urgency) -> Option<Stall> {
    while !GENERATIONS.is_complete(number) {
        let led = begin();
        while fence_and_advance_sequence(led, true, Reach::Interrupts) != MembarrierOutcome::Done {
            thread::sleep_ns(NAP_NS_MAX);
        }
        let stall = wait_for_readers(urgency);
        if stall.is_some() {
            return stall;
        }
        complete(led);
    }
    None
}

/// Leads without waiting, as far as it can, if no other thread leads. True if it lacks a
/// membarrier, which this thread may not call. Async-signal-safe.
pub(crate) fn lead_without_waiting(number: u64, urgency: Urgency, reach: Reach) -> bool {
    let Some(leading) = Lead::take(&GENERATIONS) else { return false };
    // At most twice: the grace period that was under way, and the requested one.
    while !GENERATIONS.is_complete(number)
        && (GENERATIONS.under_way().is_some() || expedite::may_begin(urgency, began_ns()))
    {
        let led = begin();
        match fence_and_advance_sequence(led, expedite::hurries(urgency), reach) {
            MembarrierOutcome::Done => {}
            MembarrierOutcome::Later => break,
            MembarrierOutcome::ByOthers => return true,
        }
        if let Some(record) = first_in_the_way() {
            if reach == Reach::Interrupts {
                let age_ns = clock::fine_ns().saturating_sub(began_ns());
                let stall = stall::check_reader(record, age_ns);
                drop(leading);
                stall::report(stall);
            }
            return false;
        }
        complete(led);
    }
    false
}

/// Step 0 if it is not done yet. Returns the number of the grace period that is under way.
fn begin() -> u64 {
    GENERATIONS.under_way().unwrap_or_else(|| {
        let number = GENERATIONS.begin();
        // Relaxed: only leaders write it, and it passes between them with the lead.
        BEGAN_NS.store(clock::fine_ns(), Ordering::Relaxed);
        stall::begin();
        probe::grace_period_begin(number as usize, DEFAULT);
        number
    })
}

/// How steps 1 and 2 have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MembarrierOutcome {
    /// They are done.
    Done,
    /// Nothing hurries, and the other threads may pass fences soon; or time takes the place of a
    /// membarrier, and there was too little.
    Later,
    /// A thread that may call membarrier has to.
    ByOthers,
}

/// Steps 1 and 2 if they are not done yet: every thread passes a fence, then the sequence advances.
fn fence_and_advance_sequence(number: u64, hurries: bool, reach: Reach) -> MembarrierOutcome {
    // Relaxed, here and below: only leaders write these, and pass them on with the lead.
    if SCANNING.load(Ordering::Relaxed) {
        return MembarrierOutcome::Done;
    }
    if let Some(own) = registry::own() {
        // SeqCst: the leader's own fence before `note_fence`, like any other thread's. [R6]
        fence(Ordering::SeqCst);
        own.reader.note_fence(number);
    }
    let has_membarrier = mode() == FenceMode::Membarrier;
    let readers = if has_membarrier { fences::scan_fences(number) } else { Readers::Unfenced };
    if readers == Readers::Unfenced {
        if !hurries && has_membarrier && fences::has_patience(began_ns()) {
            return MembarrierOutcome::Later;
        }
        if !heavy_fence(began_ns(), reach) {
            let is_others = reach == Reach::Quiet && !fences_by_time();
            return if is_others { MembarrierOutcome::ByOthers } else { MembarrierOutcome::Later };
        }
        MEMBARRIERS.fetch_add(1, Ordering::Relaxed);
    }
    fences::note_interrupted(readers == Readers::Unfenced);
    let count = registry::count();
    let is_over = readers == Readers::Gone;
    if !is_over {
        let global = GLOBAL.0.load(Ordering::Relaxed).wrapping_add(STEP);
        times::note_sequence(global / STEP);
        // Relaxed: no reader may rely on the order of this store, see the proof above.
        GLOBAL.0.store(global, Ordering::Relaxed);
    }
    SCANNED.store(if is_over { count } else { 0 }, Ordering::Relaxed);
    SCAN_END.store(count, Ordering::Relaxed);
    SCANNING.store(true, Ordering::Relaxed);
    MembarrierOutcome::Done
}

/// One scan of step 3: the first record that has not passed, or [`SHARED`] for [`OVERFLOW`].
fn first_in_the_way() -> Option<u32> {
    // Relaxed, here and below: as in `fence_and_advance_sequence`.
    let global = GLOBAL.0.load(Ordering::Relaxed);
    let limit = SCAN_END.load(Ordering::Relaxed);
    let has_not_passed = |number: &u32| !registry::record(*number).reader.has_passed(global);
    let found = (SCANNED.load(Ordering::Relaxed)..limit).find(has_not_passed);
    SCANNED.store(found.unwrap_or(limit), Ordering::Relaxed);
    // Acquire pairs with the Release of the unlock. [R4]
    found.or_else(|| (OVERFLOW.load(Ordering::Acquire) != 0).then_some(SHARED))
}

/// Repeats step 3 until every reader has passed, or there is something to report.
fn wait_for_readers(urgency: Urgency) -> Option<Stall> {
    let mut backoff = Backoff::new(began_ns());
    let spins = if expedite::is_urgent(urgency) { 4 * SCAN_SPINS } else { SCAN_SPINS };
    while let Some(record) = first_in_the_way() {
        let check = |age_ns| stall::check_reader(record, age_ns);
        let stall = backoff.once(spins, check, |nap_ns| sleep_beside(record, nap_ns));
        if stall.is_some() {
            return stall;
        }
    }
    None
}

/// Sleeps until the reader of a record, or [`SHARED`], has left its section, or for this time. A
/// leader that gave up the CPU and did not sleep would wait for all that want to run; one that
/// sleeps runs soon after it is woken.
fn sleep_beside(record: u32, nap_ns: u64) {
    match record {
        SHARED => thread::sleep_ns(nap_ns),
        // The reader may want this CPU: the leader leaves it alone for longer.
        _ => section::sleep_until_ended(&registry::record(record).reader, nap_ns.max(NAP_NS_WOKEN)),
    }
}

/// Step 4.
fn complete(number: u64) {
    times::count(clock::fine_ns().saturating_sub(began_ns()));
    // Relaxed: only leaders write it.
    SCANNING.store(false, Ordering::Relaxed);
    probe::grace_period_end(number as usize, DEFAULT);
    GENERATIONS.complete(number, &Futex);
}

pub(crate) fn began_ns() -> u64 {
    // Relaxed: as in `begin`.
    BEGAN_NS.load(Ordering::Relaxed)
}

/// What grace periods of the default domain have cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Grace periods that are over.
    pub grace_periods: u64,
    /// Membarriers, or fences in their place, that these needed; see [`crate::enter_idle`].
    pub membarriers: u64,
    /// Records that belong to a thread, and free records.
    pub records: u32,
    /// Readers fence: membarrier is refused, or `SHEAVES_RCU_FENCES` is set.
    pub readers_fence: bool,
}

/// The counts at this moment. Async-signal-safe.
#[must_use]
pub fn statistics() -> Statistics {
    Statistics {
        grace_periods: GENERATIONS.completed(),
        // Relaxed: a number for reports.
        membarriers: MEMBARRIERS.load(Ordering::Relaxed),
        records: registry::count(),
        readers_fence: mode() == FenceMode::Fences,
    }
}

static HANDLERS: Handlers = Handlers { prepare: || (), parent: || (), child: restart_in_child };
sheaves_sys::announce_when_loaded!(GracePeriods, &HANDLERS);

/// In the child of a fork a grace period that was under way begins again with its number. A fork
/// does not wait for the leader, which may wait for the thread that forks. A thread that leads
/// forks only in a signal handler, and goes on leading.
fn restart_in_child() {
    if GENERATIONS.leader() != tls::thread_pointer() {
        sheaves_sys::restart_word!(SCANNING, false);
        GENERATIONS.restart_in_child();
    }
    stall::restart_in_child();
}
