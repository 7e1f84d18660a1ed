//! The counting of a slab: flushes without a lock, concurrent with refills and releases under it.
//!
//! The steps are those of `counting`, which the real slab uses; the order of steps is that of
//! `flush`, `refill` and `bins`. What must hold: a refill finds as many objects as it took from the
//! count, no object is taken twice, and its contents are visible to its new user. A released slab
//! has no allocated object. At rest a slab with free objects is on a list, and an empty one on that
//! of empty slabs.

use std::sync::Arc;
use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use crate::protocol::counting;

const CAPACITY: usize = 3;

/// How a variant breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A flush counts before it sets the bits.
    CountsFirst,
    /// A refill takes every bit that it sees, counted or not.
    TakesTheUncounted,
    /// No thread checks the list when the count rises from 0.
    ForgetsToList,
    /// No thread checks the list when the count reaches the capacity.
    ForgetsTheEmpty,
}

/// State under the cache's lock.
#[derive(Debug, Default)]
struct Lists {
    is_listed: bool,
    /// On the list of empty slabs.
    is_empty: bool,
    /// Released to the chunks.
    is_released: bool,
}

struct Model {
    fault: Fault,
    free: AtomicU32,
    /// Two words, so that one flush may have to write to both: object 2 is in the second.
    bits: [AtomicU64; 2],
    objects: Vec<UnsafeCell<u32>>,
    lists: Mutex<Lists>,
}

// SAFETY: only the owner of an object uses it, which is what the model checks.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

/// Word and bit of an object.
fn place(object: usize) -> (usize, u64) {
    if object == CAPACITY - 1 { (1, 1) } else { (0, 1 << object) }
}

fn object_at(index: usize) -> usize {
    if index >= 64 { CAPACITY - 1 } else { index }
}

impl Model {
    /// A slab whose objects are all allocated.
    fn new(fault: Fault) -> Arc<Model> {
        Arc::new(Model {
            fault,
            free: AtomicU32::new(0),
            bits: [AtomicU64::new(0), AtomicU64::new(0)],
            objects: (0..CAPACITY).map(|_| UnsafeCell::new(0)).collect(),
            lists: Mutex::new(Lists::default()),
        })
    }

    /// Writes to an object as its owner.
    fn touch(&self, object: usize) {
        // SAFETY: the caller owns the object; where that is wrong, loom reports it.
        self.objects[object].with_mut(|contents| unsafe { *contents += 1 });
    }

    /// `flush::flush_run`.
    fn flush(&self, run: &[usize]) {
        run.iter().for_each(|object| self.touch(*object));
        let mut before = 0;
        if self.fault == Fault::CountsFirst {
            before = counting::count_put(&self.free, run.len() as u32) as usize;
        }
        for object in run {
            let (word, bit) = place(*object);
            assert!(counting::put_bits(&self.bits[word], bit), "object {object} was free");
        }
        if self.fault != Fault::CountsFirst {
            before = counting::count_put(&self.free, run.len() as u32) as usize;
        }
        let looks = match self.fault {
            Fault::ForgetsToList => before + run.len() == CAPACITY && before != 0,
            Fault::ForgetsTheEmpty => before == 0,
            _ => counting::must_check_list(before, run.len(), CAPACITY),
        };
        if looks {
            self.relist();
        }
    }

    /// `flush::relist`, with the release of empty slabs.
    fn relist(&self) {
        let mut lists = self.lists.lock().unwrap();
        if lists.is_released {
            return;
        }
        let free = self.free.load(Ordering::Acquire) as usize;
        if !counting::must_move(lists.is_listed, free, CAPACITY) {
            return;
        }
        self.list(&mut lists);
        if lists.is_empty {
            self.release(&mut lists);
        }
    }

    /// `bins::Slabs::list`.
    fn list(&self, lists: &mut Lists) {
        lists.is_listed = true;
        lists.is_empty = self.free.load(Ordering::Acquire) as usize == CAPACITY;
    }

    /// `release::release_empty`: all objects must be there, and they belong to the next user.
    fn release(&self, lists: &mut Lists) {
        *lists = Lists { is_listed: false, is_empty: false, is_released: true };
        for object in 0..CAPACITY {
            let (word, bit) = place(object);
            let bits = self.bits[word].load(Ordering::Relaxed);
            assert!(bits & bit != 0, "a slab is released with object {object} out");
            self.touch(object);
        }
    }

    /// `refill::refill`, from this slab alone.
    fn refill(&self, wanted: usize) -> Vec<usize> {
        let mut lists = self.lists.lock().unwrap();
        let mut taken = Vec::new();
        if !lists.is_listed {
            return taken;
        }
        let left = if self.fault == Fault::TakesTheUncounted {
            self.take_uncounted(wanted, &mut taken)
        } else {
            let take = |index| taken.push(object_at(index));
            let left = counting::take(&self.free, &self.bits, wanted, take);
            left.expect("fewer objects than counted")
        };
        *lists = Lists::default();
        if left > 0 {
            self.list(&mut lists);
        }
        taken.iter().for_each(|object| self.touch(*object));
        taken
    }

    fn take_uncounted(&self, wanted: usize, taken: &mut Vec<usize>) -> u32 {
        for object in 0..CAPACITY {
            let (word, bit) = place(object);
            let is_free = self.bits[word].load(Ordering::Relaxed) & bit != 0;
            if is_free && taken.len() < wanted {
                self.bits[word].fetch_and(!bit, Ordering::Acquire);
                taken.push(object);
            }
        }
        let before = self.free.fetch_sub(taken.len() as u32, Ordering::Relaxed) as usize;
        before.checked_sub(taken.len()).expect("more objects than counted") as u32
    }

    /// No thread runs any more: the slab must be on the list that its count requires.
    fn check_at_rest(&self, out: usize) {
        let lists = self.lists.lock().unwrap();
        let free = self.free.load(Ordering::Relaxed) as usize;
        assert_eq!(free + out, CAPACITY, "the count is off");
        let bits = self.bits.iter().map(|word| word.load(Ordering::Relaxed).count_ones());
        assert_eq!(bits.sum::<u32>() as usize, free, "count and bits differ");
        let is_found = lists.is_released || lists.is_listed == (free > 0);
        assert!(is_found, "a slab with free objects is on no list");
        assert!(free < CAPACITY || lists.is_released, "an empty slab is not known as empty");
    }
}

/// Two flushes concurrent with a refill; together they flush all objects.
fn flushes_beside_a_refill(fault: Fault) {
    loom::model(move || {
        let model = Model::new(fault);
        let runs: [&[usize]; 2] = [&[0, 2], &[1]];
        let flushers = runs.map(|run| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.flush(run))
        });
        let taken = model.refill(2);
        flushers.into_iter().for_each(|flusher| flusher.join().unwrap());
        model.check_at_rest(taken.len());
    });
}

/// One flush concurrent with a refill, while object 1 stays allocated: the slab is never empty. The
/// objects of `earlier` are in the slab when this begins.
fn a_flush_beside_a_refill(fault: Fault, earlier: &'static [usize], run: &'static [usize]) {
    loom::model(move || {
        let model = Model::new(fault);
        if !earlier.is_empty() {
            model.flush(earlier);
        }
        let flusher = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.flush(run))
        };
        let taken = model.refill(2);
        flusher.join().unwrap();
        model.check_at_rest(1 + taken.len());
    });
}

/// One thread takes objects and returns them, while another returns the others.
fn a_flush_beside_a_user(fault: Fault) {
    loom::model(move || {
        let model = Model::new(fault);
        model.flush(&[0]);
        let flusher = {
            let model = Arc::clone(&model);
            thread::spawn(move || model.flush(&[1, 2]))
        };
        let taken = model.refill(1);
        if !taken.is_empty() {
            model.flush(&taken);
        }
        flusher.join().unwrap();
        model.check_at_rest(0);
    });
}

#[test]
fn model_of_flushes_beside_a_refill() {
    flushes_beside_a_refill(Fault::None);
}

#[test]
fn model_of_a_flush_beside_a_user() {
    a_flush_beside_a_user(Fault::None);
}

#[test]
fn model_of_a_flush_beside_a_refill() {
    a_flush_beside_a_refill(Fault::None, &[], &[0, 2]);
    a_flush_beside_a_refill(Fault::None, &[0], &[2]);
}

#[test]
#[should_panic(expected = "fewer objects than counted")]
fn model_that_counts_first_is_caught_by_a_refill() {
    a_flush_beside_a_refill(Fault::CountsFirst, &[0], &[2]);
}

#[test]
#[should_panic(expected = "a slab is released with object")]
fn model_that_counts_first_is_caught_by_a_release() {
    flushes_beside_a_refill(Fault::CountsFirst);
}

#[test]
#[should_panic(expected = "more objects than counted")]
fn model_that_takes_the_uncounted_is_caught() {
    flushes_beside_a_refill(Fault::TakesTheUncounted);
}

#[test]
#[should_panic(expected = "on no list")]
fn model_that_forgets_to_list_is_caught() {
    a_flush_beside_a_refill(Fault::ForgetsToList, &[], &[0, 2]);
}

#[test]
#[should_panic(expected = "not known as empty")]
fn model_that_forgets_the_empty_is_caught() {
    a_flush_beside_a_user(Fault::ForgetsTheEmpty);
}
