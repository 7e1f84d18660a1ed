//! Turns among those who wait for one grace period after the other.
//!
//! While no reader is in the way and the other processors do something else, a grace period takes
//! a tenth to a third of a microsecond. To wake somebody takes two, to let him run up to thirty. So
//! where threads ask again as soon as they have returned, it does not pay to wake all of them for
//! each grace period: they take turns. Whose turn it is leads whenever he asks, a number of times;
//! the others stand in a line, asleep, and find that their grace periods have long been over when
//! they are called, one by one, in order.
//!
//! That pays only as long as somebody asks again at once ([`HEAT_HOT`], [`AGAIN_NS`]), and as long
//! as the grace periods of turns are as short as that ([`COST_NS_MAX`]). Where readers are in the
//! way, or are interrupted on many processors, or where work is done between two requests, nobody
//! stands in line, and whoever does already is woken with all others: `generation` then has the
//! waiters, who share grace periods. Who wants a grace period at once never stands in line.
//!
//! # Who calls
//! Nobody may be left in the line by a thread that has its turn and does not come back. So the next
//! one is called at once, when a turn begins, not when it ends: by whoever gives back the lead, and
//! by whoever is called and does not lead, because his grace period is over. There is at most one
//! who was called and has not come, about.
//!
//! | `line` | meaning | transitions |
//! |---|---|---|
//! | `ASLEEP` | somebody may stand there | by him before he sleeps; cleared where none is found |
//! | `CALLED` | one was called, and will come | set by whoever calls; cleared by who comes |
//!
//! Somebody sleeps only while the lead is taken or `CALLED` is set. Whoever then gives back the
//! lead, or comes, sees `ASLEEP` afterwards. Modelled in `models`. A second net is below: nobody
//! stands in line for longer than twenty milliseconds without looking for himself, and then leads.
//!
//! # Fairness
//! Turns are counted in grace periods, all of one length while the line has one ([`TURN`]). Who is
//! called may come before the turn of another has ended; it ends then, and what is left of it is
//! handed to its owner (`rest`) for the next time. In the same way whoever has led more than his
//! turn, because nobody had come yet, has shorter turns for a while. Both are bounded, by some tens
//! of microseconds of leading, and forgotten after some milliseconds. What is left or owed carries
//! over as in the deficit round robin of Shreedhar and Varghese (SIGCOMM 1995).

use sheaves_sys::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::generation::Sleep;

/// How standing in line has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stood {
    /// Called.
    Called,
    /// Something has changed: look again.
    Changed,
    /// Too long.
    TooLong,
}

/// How threads stand in line.
pub(crate) trait Line: Sleep {
    /// The processor that the caller runs on, of [`PLACES`]; others may share the number.
    fn place(&self) -> usize;
    /// Sleeps at a place until called, unless the word does not hold `expected`; not for ever.
    fn stand(&self, word: &AtomicU32, expected: u32, place: usize) -> Stood;
    /// Calls the one who has slept longest, at that place or at any; whether there was one.
    fn call(&self, word: &AtomicU32, place: Option<usize>) -> bool;
}

const ASLEEP: u32 = 1;
const CALLED: u32 = 2;

/// Whoever asks within this time after his last grace period asks again at once.
const AGAIN_NS: u64 = 4_000;
/// From this on there are turns: how often, less how often not.
const HEAT_HOT: u32 = 3;
const HEAT_MAX: u32 = 8;
/// What grace periods may take on average for turns to pay, how much of a long one counts, and to
/// which part. Where they take longer, there are no turns for a while.
const COST_NS_MAX: u64 = 8_000;
const COST_NS_CLAMP: u64 = 12_000;
const COST_WEIGHT: u64 = 64;
const PAUSE_NS: u64 = 10_000_000;
/// Grace periods of a turn. Ten threads that ask a thousand times each end within one round of
/// turns: 12 of 1,000, so 1.2 % apart.
pub(crate) const TURN: u32 = 12;
/// A turn is so much longer for each so many who stand in line, and at most so many times as long:
/// the longer the line, the dearer is a call.
const LONGER: u32 = 32;
const LONGER_MAX: u32 = 8;
/// The shortest turn, of somebody who has led too much.
const TURN_MIN: i32 = 4;
/// Calls are for the caller's processor, to which nothing has to be sent, until there were so many
/// more than threads stand there; then one is for whoever has stood longest, wherever that is.
const NEAR_MORE: u32 = 4;
/// Processors that are told apart.
pub(crate) const PLACES: usize = if cfg!(loom) { 1 } else { 32 };

/// The turns of a domain. `line` is written by all, `standing_at` by who stands in line; the rest
/// are hints, written by those who lead or are called.
#[repr(align(128))]
pub(crate) struct Turns {
    line: AtomicU32,
    /// Whose turn it is; 0 for nobody's.
    holder: AtomicUsize,
    /// Grace periods of the turn so far, and in all.
    led: AtomicU32,
    budget: AtomicU32,
    /// Whether somebody asks again at once, and what that costs.
    heat: AtomicU32,
    cost_ns: AtomicU64,
    /// When there may be turns again.
    from_ns: AtomicU64,
    /// When the holder last led or was called.
    acted_ns: AtomicU64,
    /// Calls for one processor in a row.
    calls: AtomicU32,
    /// How many stand in line at each place, about.
    standing_at: [AtomicU32; PLACES],
}

/// What is left of a turn that has ended, or by how much it was too long. It is its owner's: what
/// is left where he is still at it, and what he owes in any case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub(crate) of: usize,
    pub(crate) left: i32,
}

/// When somebody has led.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Led {
    /// When his last wait was over, 0 where that is not known.
    pub(crate) returned_ns: u64,
    pub(crate) began_ns: u64,
    /// `None` where nobody else waits: the clock is not asked.
    pub(crate) ended_ns: Option<u64>,
}

/// Does somebody do something else who acted at a time for the last time?
fn is_gone(acted_ns: u64, now_ns: u64) -> bool {
    now_ns.saturating_sub(acted_ns) >= 5 * AGAIN_NS
}

impl Turns {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Turns {
        Turns {
            line: AtomicU32::new(0),
            holder: AtomicUsize::new(0),
            led: AtomicU32::new(0),
            budget: AtomicU32::new(0),
            heat: AtomicU32::new(0),
            cost_ns: AtomicU64::new(0),
            from_ns: AtomicU64::new(0),
            acted_ns: AtomicU64::new(0),
            calls: AtomicU32::new(0),
            standing_at: [const { AtomicU32::new(0) }; PLACES],
        }
    }

    /// Turns that always pay: a model checker has no clock, and its atomics are no constants.
    #[cfg(loom)]
    pub(crate) fn new() -> Turns {
        Turns {
            line: AtomicU32::new(0),
            holder: AtomicUsize::new(0),
            led: AtomicU32::new(0),
            budget: AtomicU32::new(0),
            heat: AtomicU32::new(HEAT_HOT),
            cost_ns: AtomicU64::new(0),
            from_ns: AtomicU64::new(0),
            acted_ns: AtomicU64::new(0),
            calls: AtomicU32::new(0),
            standing_at: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Do threads take turns?
    pub(crate) fn are_taken(&self) -> bool {
        // Relaxed: a hint.
        self.heat.load(Ordering::Relaxed) >= HEAT_HOT
    }

    /// Is it that thread's turn?
    pub(crate) fn is_of(&self, me: usize) -> bool {
        // Relaxed: a hint.
        self.holder.load(Ordering::Relaxed) == me
    }

    /// Was somebody called, while it is not that thread's turn?
    pub(crate) fn is_of_another(&self, me: usize) -> bool {
        // Relaxed: a hint.
        self.line.load(Ordering::Relaxed) & CALLED != 0 && !self.is_of(me)
    }

    /// Does anybody stand in line, or is on the way?
    pub(crate) fn has_line(&self) -> bool {
        // Relaxed: a hint.
        self.line.load(Ordering::Relaxed) != 0
    }

    /// Notes that a thread has led. For the leader. Returns what is left of the turn that ends.
    pub(crate) fn note(&self, me: usize, times: Led) -> Option<Left> {
        // Relaxed, all: hints, which leaders write.
        let heat = self.heat.load(Ordering::Relaxed);
        let is_mine = self.is_of(me);
        let acted_ns = self.acted_ns.load(Ordering::Relaxed);
        let is_nobodys = self.is_of(0) || is_gone(acted_ns, times.began_ns);
        let last_ns = if is_mine { acted_ns } else { 0 }.max(times.returned_ns);
        let is_again = times.began_ns.saturating_sub(last_ns) < AGAIN_NS;
        self.acted_ns.store(times.ended_ns.unwrap_or(times.began_ns), Ordering::Relaxed);
        let is_called = self.line.load(Ordering::Relaxed) & CALLED != 0;
        if is_again && times.began_ns >= self.from_ns.load(Ordering::Relaxed) {
            self.heat.store((heat + 1).min(HEAT_MAX), Ordering::Relaxed);
        } else {
            self.heat.store(heat / 2, Ordering::Relaxed);
        }
        self.note_cost(times);
        if is_mine {
            let led = self.led.load(Ordering::Relaxed).saturating_add(1);
            self.led.store(led, Ordering::Relaxed);
            let is_over = is_called && led >= self.budget.load(Ordering::Relaxed);
            return if is_over { self.end(false) } else { None };
        }
        if is_called || (heat >= HEAT_HOT && !is_nobodys) {
            return None;
        }
        let left = self.end(false);
        self.begin(me, 0);
        left
    }

    /// Averages what grace periods cost while there are turns. Where that is too much, there are
    /// none for a while.
    fn note_cost(&self, times: Led) {
        let Some(ended_ns) = times.ended_ns.filter(|_| self.are_taken()) else { return };
        // Relaxed, all: as above.
        let cost = self.cost_ns.load(Ordering::Relaxed);
        let took = ended_ns.saturating_sub(times.began_ns).min(COST_NS_CLAMP);
        let average = cost - cost / COST_WEIGHT + took / COST_WEIGHT;
        if average < COST_NS_MAX {
            self.cost_ns.store(average, Ordering::Relaxed);
        } else {
            self.cost_ns.store(0, Ordering::Relaxed);
            self.heat.store(0, Ordering::Relaxed);
            self.from_ns.store(ended_ns + PAUSE_NS, Ordering::Relaxed);
        }
    }

    /// Ends the turn of whoever has it. What is left of it is kept where somebody was called.
    fn end(&self, is_called: bool) -> Option<Left> {
        // Relaxed, all: hints.
        let of = self.holder.swap(0, Ordering::Relaxed);
        let budget = self.budget.load(Ordering::Relaxed).cast_signed();
        let left = budget.saturating_sub_unsigned(self.led.load(Ordering::Relaxed));
        (of != 0 && (is_called || left < 0)).then_some(Left { of, left })
    }

    /// Begins a turn, with what is left of earlier ones, or owed. Returns what is still owed.
    fn begin(&self, me: usize, rest: i32) -> i32 {
        // Relaxed, all: hints.
        self.led.store(0, Ordering::Relaxed);
        let at_places = self.standing_at.iter().map(|standing| standing.load(Ordering::Relaxed));
        let longer = (1 + at_places.sum::<u32>() / LONGER).min(LONGER_MAX);
        let wanted = (longer * TURN).cast_signed() + rest;
        let budget = wanted.max(TURN_MIN);
        self.budget.store(budget.unsigned_abs(), Ordering::Relaxed);
        self.holder.store(me, Ordering::Relaxed);
        wanted - budget
    }

    /// Calls the next one in line, unless one is on the way. For whoever has given back the lead,
    /// or has come and does not lead.
    pub(crate) fn call_next(&self, sleep: &impl Line) {
        // Relaxed: the fence of `hand_over`, or of `come`, orders, and pairs with the one in
        // `stand`: either we see who stands there, or he sees that the lead is free. [G6]
        if self.line.load(Ordering::Relaxed) != ASLEEP {
            return;
        }
        if !self.are_taken() {
            self.call_all(sleep);
            return;
        }
        let called = ASLEEP | CALLED;
        // AcqRel: with the one in `stand` and that in `come`, all are in one order. Relaxed on
        // failure: somebody else calls. [G7]
        let line = &self.line;
        if line.compare_exchange(ASLEEP, called, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        // Relaxed, all: hints.
        let place = sleep.place();
        let calls = self.calls.load(Ordering::Relaxed);
        let is_near = calls < NEAR_MORE + self.standing_at[place].load(Ordering::Relaxed);
        self.calls.store(if is_near { calls + 1 } else { 0 }, Ordering::Relaxed);
        let found = is_near && sleep.call(line, Some(place));
        if !found && !sleep.call(line, None) {
            self.call_all(sleep);
        }
    }

    /// Empties the line. Who is about to sleep finds the word changed.
    fn call_all(&self, sleep: &impl Line) {
        // AcqRel, as above. [G7]
        self.line.swap(0, Ordering::AcqRel);
        sleep.wake_all(&self.line);
    }

    /// Stands in line, unless nobody is on the way, and nobody leads who would call.
    pub(crate) fn stand(&self, is_led: impl Fn() -> bool, sleep: &impl Line) -> Stood {
        // Acquire, for nothing but the order of the loads.
        let seen = self.line.load(Ordering::Acquire);
        let waits = || seen & CALLED != 0 || is_led();
        if !waits() {
            return Stood::Changed;
        }
        let asleep = seen | ASLEEP;
        // AcqRel, as in `call_next`: who comes, or calls, after this sees it. Relaxed on failure:
        // nothing is read. [G7]
        let line = &self.line;
        if line.compare_exchange(seen, asleep, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Stood::Changed;
        }
        // SeqCst pairs with the fence of whoever calls, in `hand_over` or `come`. [G6]
        fence(Ordering::SeqCst);
        if !waits() {
            return Stood::Changed;
        }
        // Relaxed, both: a hint.
        let place = sleep.place();
        self.standing_at[place].fetch_add(1, Ordering::Relaxed);
        let stood = sleep.stand(line, asleep, place);
        self.standing_at[place].fetch_sub(1, Ordering::Relaxed);
        stood
    }

    /// Takes the turn, for which somebody was called: he leads now, or calls the next one. `rest`
    /// is what he had left of earlier turns, or owes. Returns what he still owes, and what is left
    /// of the turn that ends.
    pub(crate) fn come(&self, me: usize, rest: i32, now_ns: u64) -> (i32, Option<Left>) {
        // Relaxed, both: hints.
        let left = self.end(!is_gone(self.acted_ns.load(Ordering::Relaxed), now_ns));
        self.acted_ns.store(now_ns, Ordering::Relaxed);
        let owed = self.begin(me, rest);
        // AcqRel, as in `call_next`. [G7]
        self.line.fetch_and(!CALLED, Ordering::AcqRel);
        // SeqCst pairs with the one of who gives back the lead, in `hand_over`: he sees that nobody
        // is on the way, or we see the lead free, or our grace period over. [G6]
        fence(Ordering::SeqCst);
        (owed, left)
    }

    /// In the child of a fork: nobody stands there.
    #[cfg(not(loom))]
    pub(crate) fn restart_in_child(&self) {
        // Relaxed, all: the child has one thread.
        self.line.store(0, Ordering::Relaxed);
        self.holder.store(0, Ordering::Relaxed);
        self.standing_at.iter().for_each(|standing| standing.store(0, Ordering::Relaxed));
    }
}
