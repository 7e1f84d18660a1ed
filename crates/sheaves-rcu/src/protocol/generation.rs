//! Grace periods as numbers, and the generations of threads that wait for them.
//!
//! Grace periods of a domain are numbered from 1. A request gets the number of the next one that
//! begins, so all requests between two begins form a *generation* of waiters. The three stages of a
//! waiter are three relations between its number n and two counts:
//!
//! | stage | relation | moves on |
//! |---|---|---|
//! | next | `started` < n | when a leader begins n |
//! | wait | `started` = n, `completed` < n | when the leader completes n |
//! | done | `completed` >= n | never |
//!
//! So there is no list of waiters: one store moves a whole generation to its next stage, and one
//! call on one futex wakes it. Two futexes suffice because at most two generations wait at a time.
//! No other thread accesses a waiter's memory.
//!
//! | `futexes[n % 2]` | meaning | transitions |
//! |---|---|---|
//! | bits 12..32 | last completed generation of this parity | by the leader, when it completes |
//! | bits 1..12 | hand-overs of the lead to a sleeper since then | by the thread that hands over |
//! | bit 0 | a thread may sleep | set by a waiter before it sleeps; cleared by completion |
//!
//! A thread changes a word before it wakes it, so that a waiter that is about to sleep does not.
//! The numbers in the word wrap: if it returns to the same value in that moment, after two thousand
//! hand-overs or a million grace periods, the waiter rechecks after a tenth of a second.
//!
//! | `lead` | meaning | transitions |
//! |---|---|---|
//! | 0 | no thread leads | -> the caller's by [`Generations::try_lead`], never waited for |
//! | thread pointer | that thread leads | -> 0 by [`Generations::hand_over`] |
//!
//! The leader may stop while a grace period is under way, `started` = `completed` + 1; the next
//! leader goes on. [`Generations::hand_over`] and [`Generations::sleep`] ensure that no waiter
//! sleeps while the lead is free.

use super::machine::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, thread_pointer};

/// How threads sleep on a word: by futexes, or by a substitute in a model.
pub(crate) trait Sleep {
    /// Sleeps until the word is woken, if it holds `expected`; with a time limit.
    fn wait(&self, word: &AtomicU32, expected: u32);
    /// Wakes one sleeper; true if there was one.
    fn wake_one(&self, word: &AtomicU32) -> bool;
    fn wake_all(&self, word: &AtomicU32);
}

const SLEEPERS: u32 = 1;
const HAND: u32 = 2;
const HANDS: u32 = (1 << GENERATION_SHIFT) - HAND;
const GENERATION_SHIFT: u32 = 12;

/// The counts of a domain, see the module documentation.
#[repr(align(128))]
pub(crate) struct Generations {
    pub(super) started: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) futexes: [AtomicU32; 2],
    pub(super) lead: AtomicUsize,
}

impl Generations {
    /// The number of the first grace period that begins after this call. Async-signal-safe.
    pub(crate) fn next(&self) -> u64 {
        // SeqCst pairs with the fence in `begin`: if this reads a number from before that store,
        // every reader that the grace period does not wait for sees what the caller unlinked. [G1]
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders.
        self.started.load(Ordering::Relaxed) + 1
    }

    /// The last grace period that has begun. Async-signal-safe.
    pub(crate) fn begun(&self) -> u64 {
        // Relaxed: the fence that follows orders, see `fences`. [R6]
        self.started.load(Ordering::Relaxed)
    }

    /// True if a grace period is over. Then everything that its readers did happened before this
    /// call. Async-signal-safe.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        self.completed() >= number
    }

    pub(crate) fn completed(&self) -> u64 {
        // Acquire pairs with the Release in `complete`. [G2]
        self.completed.load(Ordering::Acquire)
    }

    pub(crate) fn is_led(&self) -> bool {
        // Relaxed: a hint; `try_lead` decides.
        self.lead.load(Ordering::Relaxed) != 0
    }

    /// Takes the lead if it is free. Never waits.
    pub(crate) fn try_lead(&self) -> bool {
        // Acquire pairs with the Release in `hand_over`: what the last leader wrote. Relaxed on
        // failure: nothing is read. [G3]
        let (lead, me) = (&self.lead, thread_pointer());
        !self.is_led() && lead.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The number of the grace period that is under way, if one is. For the leader.
    pub(crate) fn under_way(&self) -> Option<u64> {
        // Relaxed, both: only leaders write them.
        let started = self.started.load(Ordering::Relaxed);
        (self.completed.load(Ordering::Relaxed) < started).then_some(started)
    }

    /// Begins the next grace period, if none is under way. The heavy fence follows. For the leader.
    pub(crate) fn begin(&self) -> u64 {
        // Relaxed, both: only leaders write `started`.
        let number = self.started.load(Ordering::Relaxed) + 1;
        self.started.store(number, Ordering::Relaxed);
        // SeqCst pairs with the fence in `next`: if a caller of `next` still reads a lower number,
        // the heavy fence that follows makes its changes visible. [G1]
        fence(Ordering::SeqCst);
        number
    }

    /// Completes a grace period, all of whose readers have passed; wakes its generation. For the
    /// leader.
    pub(crate) fn complete(&self, number: u64, sleep: &impl Sleep) {
        // SeqCst: what readers did is before everything that follows, in any thread. Pairs with the
        // Acquire in `is_complete`. [G2]
        fence(Ordering::SeqCst);
        // Release pairs with the Acquire in `is_complete`. [G2]
        self.completed.store(number, Ordering::Release);
        let futex = self.futex(number);
        // AcqRel: Release pairs with the Acquire in `sleep`, which finds the generation complete if
        // it reads this value; Acquire with the Release of the thread that set the bit. [G4]
        let before = futex.swap((number as u32) << GENERATION_SHIFT, Ordering::AcqRel);
        if before & SLEEPERS != 0 {
            sleep.wake_all(futex);
        }
    }

    /// Gives the lead back. If waiters sleep that still have to wait, wakes one of them, to lead.
    pub(crate) fn hand_over(&self, sleep: &impl Sleep) {
        // Relaxed: only leaders write it.
        let next = self.completed.load(Ordering::Relaxed) + 1;
        // Release pairs with the Acquire in `try_lead`. [G3]
        self.lead.store(0, Ordering::Release);
        // SeqCst pairs with the fence in `sleep`: either this sees the waiter's bit, or the waiter
        // sees the lead free. [G5]
        fence(Ordering::SeqCst);
        for number in [next, next + 1] {
            let futex = self.futex(number);
            let handed = |value: u32| {
                let hands = value.wrapping_add(HAND) & HANDS;
                (value & SLEEPERS != 0).then_some((value & !HANDS) | hands)
            };
            // Relaxed, both: the fence orders, and the value only says that something has changed.
            let changed = futex.fetch_update(Ordering::Relaxed, Ordering::Relaxed, handed);
            if changed.is_ok() && sleep.wake_one(futex) {
                return;
            }
        }
    }

    /// Sleeps until a change that may concern a waiter for `number`. The caller then rechecks.
    pub(crate) fn sleep(&self, number: u64, sleep: &impl Sleep) {
        let futex = self.futex(number);
        // Acquire pairs with the Release of the swap in `complete`. [G4]
        let seen = futex.load(Ordering::Acquire);
        if self.is_complete(number) {
            return;
        }
        let sleeping = seen | SLEEPERS;
        // AcqRel: Release pairs with the Acquire of the swap in `complete`. Relaxed on failure:
        // nothing is read, the waiter rechecks. [G4]
        if futex.compare_exchange(seen, sleeping, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        // SeqCst pairs with the fence in `hand_over`. [G5]
        fence(Ordering::SeqCst);
        if self.is_led() && !self.is_complete(number) {
            sleep.wait(futex, sleeping);
        }
    }

    fn futex(&self, number: u64) -> &AtomicU32 {
        &self.futexes[(number % 2) as usize]
    }

    /// In the child of a fork, where no other thread leads or waits.
    pub(crate) fn restart_in_child(&self) {
        sheaves_sys::restart_word!(self.lead, 0);
    }

    /// The leader's thread pointer, 0 if no thread leads. For the child of a fork, and for a signal
    /// handler of the leader.
    pub(crate) fn leader(&self) -> usize {
        // Relaxed: a number from before the fork, or the thread's own.
        self.lead.load(Ordering::Relaxed)
    }
}
