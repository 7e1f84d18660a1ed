//! Drains from outside while other threads push and pop: every object is accounted for.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use sheaves_percpu::internal::slots::{self, attach};
use sheaves_percpu::internal::{Cursor, Word, push_slow};
use sheaves_sys::membarrier::Reach;

use crate::configurations::is_small;
use crate::dice::Dice;
use crate::fast::{pop, push};
use crate::numbers::{cmp_store, drain, is_sentinel, load, pop_slow, vacant};
use crate::one_slot::alone;
use crate::sheaves::{Sheaf, base};

const THREADS: usize = 6;
const OBJECTS_EACH: usize = 300;
const DRAIN_INTERVAL: Duration = Duration::from_micros(100);

fn duration() -> Duration {
    Duration::from_millis(if is_small() { 300 } else { 1_000 })
}

/// Objects and empty sheaves that are in no slot.
#[derive(Default)]
struct Market {
    objects: Mutex<Vec<usize>>,
    sheaves: Mutex<Vec<usize>>,
}

impl Market {
    fn empty_sheaf(&self) -> usize {
        self.sheaves.lock().unwrap().pop().unwrap_or_else(Sheaf::make)
    }

    /// Empties a sheaf that was in a slot.
    fn unload(&self, cursor: usize) {
        self.objects.lock().unwrap().extend(Sheaf::objects(cursor));
        self.sheaves.lock().unwrap().push(Sheaf::of_cursor(cursor).fill(&[]));
    }

    /// Returns objects that drains took out of the slots to threads with few objects.
    fn buy(&self, hand: &mut Vec<usize>) {
        let mut objects = self.objects.lock().unwrap();
        let left = objects.len().saturating_sub(OBJECTS_EACH);
        hand.extend(objects.drain(left..));
    }

    fn drain(&self, word: Word) {
        let mut cursors = Vec::with_capacity(sheaves_percpu::slot_count());
        assert!(drain(&[word], &mut |_, cursor| cursors.push(cursor)));
        cursors.into_iter().for_each(|cursor| self.unload(cursor));
    }
}

/// Replaces the slot's sheaf, if the slot has a block, by an empty one.
fn replace(market: &Market, word: Word) {
    assert!(attach());
    let current = load(word);
    if current == Cursor::BOOTSTRAP.bits() {
        return;
    }
    let empty = market.empty_sheaf();
    // SAFETY: not the bootstrap cursor; the caller owns the empty sheaf.
    if !unsafe { cmp_store(word, current, empty) } {
        market.sheaves.lock().unwrap().push(empty);
    } else if current != vacant() {
        market.unload(current);
    }
}

/// Pushes and pops until told to stop; returns the objects that it still holds.
fn trade(market: &Market, word: Word, seed: u64) -> Vec<usize> {
    let mut dice = Dice(seed);
    let first = seed as usize * OBJECTS_EACH;
    let mut hand: Vec<usize> = (first..first + OBJECTS_EACH).map(|number| 2 * number).collect();
    let until = Instant::now() + duration();
    while Instant::now() < until {
        for _ in 0..dice.throw(40) {
            let object = if dice.throw(2) == 0 { pop(word) } else { pop_slow(word) };
            if is_sentinel(object) {
                break;
            }
            hand.push(object);
        }
        if hand.len() < OBJECTS_EACH / 4 {
            market.buy(&mut hand);
        }
        for _ in 0..dice.throw(40) {
            let Some(object) = hand.pop() else { break };
            // SAFETY: objects are plain numbers here; one that was pushed is not kept.
            let slow = |object| unsafe { push_slow(word, object) };
            // SAFETY: as above.
            let pushed = unsafe { dice.throw(2) == 0 && push(word, object) };
            if !pushed && !slow(object) {
                hand.push(object);
                replace(market, word);
            }
        }
    }
    hand
}

#[test]
fn no_object_is_lost_or_doubled_by_drains() {
    let _alone = alone();
    let word = Word::new(40);
    let market = Market::default();
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let traders: Vec<_> = (1..=THREADS as u64)
            .map(|seed| {
                scope.spawn({
                    let market = &market;
                    move || trade(market, word, seed)
                })
            })
            .collect();
        let (running, market) = (&running, &market);
        scope.spawn(move || {
            // Relaxed: ends the loop; the join orders everything else.
            while running.load(Ordering::Relaxed) {
                market.drain(word);
                // So that the other threads reach their fast paths again, and this thread wakes on
                // the CPU of one of them.
                std::thread::sleep(DRAIN_INTERVAL);
            }
        });
        for trader in traders {
            let hand = trader.join().unwrap();
            market.objects.lock().unwrap().extend(hand);
        }
        running.store(false, Ordering::Relaxed);
    });
    market.drain(word);
    let mut objects = market.objects.into_inner().unwrap();
    objects.sort_unstable();
    let first = OBJECTS_EACH;
    let all: Vec<_> = (first..first + THREADS * OBJECTS_EACH).map(|number| 2 * number).collect();
    assert_eq!(objects, all);
    let mut sheaves: Vec<_> = market.sheaves.into_inner().unwrap();
    let count = sheaves.len();
    sheaves.sort_unstable_by_key(|cursor| base(*cursor));
    sheaves.dedup();
    assert_eq!(sheaves.len(), count, "a sheaf was in two places");
}

#[test]
fn drained_slots_work_on() {
    let _alone = alone();
    let word = Word::new(41);
    let market = Market::default();
    for round in 0..if is_small() { 10 } else { 200 } {
        replace(&market, word);
        // SAFETY: objects are plain numbers here.
        let pushed = (1..=3).filter(|number| unsafe { push_slow(word, 2 * number) }).count();
        market.drain(word);
        let objects = core::mem::take(&mut *market.objects.lock().unwrap());
        assert_eq!(objects.len(), pushed, "round {round}");
    }
}

#[test]
fn drains_leave_what_is_not_wanted() {
    let _alone = alone();
    let words = [Word::new(42), Word::new(43)];
    let market = Market::default();
    for round in 0..if is_small() { 10 } else { 200 } {
        let mut pushed = [0, 0];
        for (index, word) in words.into_iter().enumerate() {
            replace(&market, word);
            // SAFETY: objects are plain numbers here.
            let push = |number: &usize| unsafe { push_slow(word, 2 * number) };
            pushed[index] = (1..=3).filter(push).count();
        }
        let (taken, is_complete) =
            slots::take(&words, Reach::Interrupts, &|index, slot, cursor| {
                assert!(slot < sheaves_percpu::slot_count());
                index == 1 && cursor.is_sheaf()
            });
        assert!(is_complete);
        for (index, cursor) in taken {
            assert_eq!(index, 1, "round {round}");
            market.unload(cursor.bits());
        }
        let objects = core::mem::take(&mut *market.objects.lock().unwrap());
        assert_eq!(objects.len(), pushed[1], "round {round}");
        market.drain(words[0]);
        let objects = core::mem::take(&mut *market.objects.lock().unwrap());
        assert_eq!(objects.len(), pushed[0], "round {round}");
    }
}
