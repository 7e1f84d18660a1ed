//! Grace periods as numbers, and those who wait for them.
//!
//! Grace periods of a domain are numbered from 1. Whoever asks gets the number of the next one that
//! begins, so everybody belongs to a *generation* of waiters, and the three stages of a waiter are
//! three relations between its number n and two counts:
//!
//! | stage | relation | moves on |
//! |---|---|---|
//! | next | `started` < n | when a leader begins n |
//! | wait | `started` = n, `completed` < n | when the leader completes n |
//! | done | `completed` >= n | never |
//!
//! So no list is kept and none is walked: a whole generation changes its stage by one store, and
//! is woken by one call on one word, of which there are two because at most two generations wait
//! at any time. Nothing of a waiter is touched by others, before or after it is woken.
//!
//! | `words[n % 2]` | meaning | transitions |
//! |---|---|---|
//! | bits 12..32 | last completed generation of this parity | by the leader, when it completes |
//! | bits 1..12 | how often the lead was handed to a sleeper since | by whoever hands over |
//! | bit 0 | somebody may sleep | set by a waiter before it sleeps; cleared by completion |
//!
//! Whoever wakes a word has changed it before, so that a waiter that is about to sleep does not.
//! The numbers in it wrap; who sleeps on a value that has come round, after two thousand hand-overs
//! or a million grace periods in the moment before it sleeps, looks again after a tenth of a
//! second.
//!
//! | `lead` | meaning | transitions |
//! |---|---|---|
//! | 0 | nobody leads | -> the caller's by [`Generations::try_lead`], never waited for |
//! | thread pointer | that thread leads | -> 0 by [`Generations::hand_over`] |
//!
//! The leader may stop in the middle, `started` = `completed` + 1; the next one goes on.
//! That a waiter which arrives in the middle is released too early is impossible because it has
//! another number; that nobody is left asleep without a leader is what [`Generations::hand_over`]
//! and [`Generations::sleep`] see to together. Both are modelled in `models`.

use sheaves_sys::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// How threads sleep on a word: futexes, or what stands for them in a model.
pub(crate) trait Sleep {
    /// Sleeps until the word is woken, unless it does not hold `expected`; not for ever.
    fn wait(&self, word: &AtomicU32, expected: u32);
    /// Wakes one sleeper; whether there was one.
    fn wake_one(&self, word: &AtomicU32) -> bool;
    /// Wakes all sleepers.
    fn wake_all(&self, word: &AtomicU32);
}

/// The bit of a word that says that somebody may sleep on it.
const SLEEPERS: u32 = 1;
/// One more hand-over, and the bits that count them.
const HAND: u32 = 2;
const HANDS: u32 = (1 << GENERATION_SHIFT) - HAND;
/// Where the generation begins.
const GENERATION_SHIFT: u32 = 12;

/// The numbers of a domain. See the file for who writes what.
#[repr(align(128))]
pub(crate) struct Generations {
    started: AtomicU64,
    completed: AtomicU64,
    words: [AtomicU32; 2],
    lead: AtomicUsize,
}

impl Generations {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Generations {
        Generations {
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            words: [const { AtomicU32::new(0) }; 2],
            lead: AtomicUsize::new(0),
        }
    }

    /// A model checker's atomics are no constants.
    #[cfg(loom)]
    pub(crate) fn new() -> Generations {
        Generations {
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU32::new(0)),
            lead: AtomicUsize::new(0),
        }
    }

    /// The number of the first grace period that begins after this call. Async-signal-safe.
    pub(crate) fn next(&self) -> u64 {
        // SeqCst pairs with the fence in `begin`: if we read a number from before that store, then
        // what we unlinked is seen by every reader that the grace period does not wait for. [G1]
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders.
        self.started.load(Ordering::Relaxed) + 1
    }

    /// The last grace period that has begun, for whoever passes a fence after this and takes a note
    /// of it. Async-signal-safe.
    #[cfg(not(loom))]
    pub(crate) fn begun(&self) -> u64 {
        // Relaxed: the fence that follows orders, see `fences`. [R6]
        self.started.load(Ordering::Relaxed)
    }

    /// Is a grace period over? Then everything that its readers did happened before this call.
    /// Async-signal-safe.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        // Acquire pairs with the Release in `complete`. [G2]
        self.completed.load(Ordering::Acquire) >= number
    }

    /// The last grace period that is over.
    #[cfg(not(loom))]
    pub(crate) fn completed(&self) -> u64 {
        // Acquire pairs with the Release in `complete`. [G2]
        self.completed.load(Ordering::Acquire)
    }

    /// Does somebody lead at this moment? A hint.
    pub(crate) fn is_led(&self) -> bool {
        // Relaxed: a hint; `try_lead` decides.
        self.lead.load(Ordering::Relaxed) != 0
    }

    /// Takes the lead if nobody has it. Ends with [`Generations::hand_over`]. Never waits.
    pub(crate) fn try_lead(&self) -> bool {
        // Acquire pairs with the Release in `hand_over`: what the last leader left. Relaxed on
        // failure: nothing is read. [G3]
        let (lead, me) = (&self.lead, me());
        !self.is_led() && lead.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The number of the grace period that is under way, if one is. For the leader.
    #[cfg(not(loom))]
    pub(crate) fn under_way(&self) -> Option<u64> {
        // Relaxed, both: only leaders write them.
        let started = self.started.load(Ordering::Relaxed);
        (self.completed.load(Ordering::Relaxed) < started).then_some(started)
    }

    /// Begins the next grace period: its number. For the leader, when none is under way. The heavy
    /// fence comes after this.
    pub(crate) fn begin(&self) -> u64 {
        // Relaxed, both: only leaders write `started`.
        let number = self.started.load(Ordering::Relaxed) + 1;
        self.started.store(number, Ordering::Relaxed);
        // SeqCst pairs with the fence in `next`: who reads a lower number from now on has its
        // changes seen by the heavy fence that follows. [G1]
        fence(Ordering::SeqCst);
        number
    }

    /// Completes the grace period that is under way, and wakes its generation. For the leader, who
    /// has seen every reader pass.
    pub(crate) fn complete(&self, number: u64, sleep: &impl Sleep) {
        // SeqCst: what readers did is before everything that follows, whoever does it. Pairs with
        // the Acquire in `is_complete`. [G2]
        fence(Ordering::SeqCst);
        // Release pairs with the Acquire in `is_complete`. [G2]
        self.completed.store(number, Ordering::Release);
        let word = self.word(number);
        // AcqRel: Release pairs with the Acquire in `sleep`, which finds the generation complete
        // if it finds this value; Acquire with the one that set the bit. [G4]
        let before = word.swap((number as u32) << GENERATION_SHIFT, Ordering::AcqRel);
        if before & SLEEPERS != 0 {
            sleep.wake_all(word);
        }
    }

    /// Gives the lead back. If somebody sleeps that still has to wait, one of them is woken, to
    /// lead.
    pub(crate) fn hand_over(&self, sleep: &impl Sleep) {
        // Relaxed: only leaders write it.
        let next = self.completed.load(Ordering::Relaxed) + 1;
        // Release pairs with the Acquire in `try_lead`. [G3]
        self.lead.store(0, Ordering::Release);
        // SeqCst pairs with the fence in `sleep`: either we see its bit, or it sees the lead free.
        // [G5]
        fence(Ordering::SeqCst);
        for number in [next, next + 1] {
            let word = self.word(number);
            let handed = |value: u32| {
                let hands = value.wrapping_add(HAND) & HANDS;
                (value & SLEEPERS != 0).then_some((value & !HANDS) | hands)
            };
            // Relaxed, both: the fence orders, and the value says only that there is something new.
            let changed = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, handed);
            if changed.is_ok() && sleep.wake_one(word) {
                return;
            }
        }
    }

    /// Sleeps until something happens that may concern a waiter for `number`: it looks again.
    pub(crate) fn sleep(&self, number: u64, sleep: &impl Sleep) {
        let word = self.word(number);
        // Acquire pairs with the Release of the swap in `complete`. [G4]
        let seen = word.load(Ordering::Acquire);
        if self.is_complete(number) {
            return;
        }
        let sleeping = seen | SLEEPERS;
        // AcqRel: Release pairs with the Acquire of the swap in `complete`. Relaxed on failure:
        // nothing is read, the waiter looks again. [G4]
        if word.compare_exchange(seen, sleeping, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        // SeqCst pairs with the fence in `hand_over`. [G5]
        fence(Ordering::SeqCst);
        if self.is_led() && !self.is_complete(number) {
            sleep.wait(word, sleeping);
        }
    }

    /// The word on which the generation of a number sleeps.
    fn word(&self, number: u64) -> &AtomicU32 {
        &self.words[(number % 2) as usize]
    }

    /// In the child of a fork: no other thread leads, none waits. A grace period that was under way
    /// is begun anew by the next leader.
    #[cfg(not(loom))]
    pub(crate) fn restart_in_child(&self) {
        // Relaxed: the child has one thread.
        self.lead.store(0, Ordering::Relaxed);
    }

    /// Does the calling thread lead? Asked by a handler of that thread.
    #[cfg(not(loom))]
    pub(crate) fn is_led_here(&self) -> bool {
        // Relaxed: a thread's own pointer is stored, and taken away, by that thread alone.
        self.lead.load(Ordering::Relaxed) == me()
    }
}

/// What a leader writes into the lead.
#[cfg(not(loom))]
fn me() -> usize {
    sheaves_sys::tls::thread_pointer()
}

/// A model's threads need not be told apart.
#[cfg(loom)]
fn me() -> usize {
    1
}
