//! A key and a value that a reader copies while a writer reuses their place, as the map of words
//! does it (`sheaves::map`, `words/pair.rs`), whose crate does not build for the model checker.
//!
//! What must hold: a reader finds a value that was stored for its key, or none.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const KEY: u64 = 1;
const OTHER: u64 = 2;
const OCCUPIED: u64 = 1;

/// How a variant breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The reader does not look at the count again.
    LooksOnce,
    /// It looks at the tags before the count.
    TagsFirst,
    /// The writer counts after it has stored the entry.
    CountsLate,
    /// A reader may see the count without the removal before.
    CountsRelaxed,
    /// A reader may see the entry without the count before.
    StoresRelaxed,
}

/// A bucket with one place.
struct Bucket {
    fault: Fault,
    version: AtomicU64,
    tags: AtomicU64,
    key: AtomicU64,
    value: AtomicU64,
}

impl Bucket {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn remove(&self) {
        self.tags.store(0, Ordering::Release);
    }

    fn count(&self) {
        let next = self.version.load(Ordering::Relaxed) + 1;
        let is_relaxed = self.is(Fault::CountsRelaxed);
        let order = if is_relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.version.store(next, order);
    }

    fn fill(&self, key: u64, value: u64) {
        let is_relaxed = self.is(Fault::StoresRelaxed);
        let order = if is_relaxed { Ordering::Relaxed } else { Ordering::Release };
        if !self.is(Fault::CountsLate) {
            self.count();
        }
        self.key.store(key, order);
        self.value.store(value, order);
        if self.is(Fault::CountsLate) {
            self.count();
        }
        self.tags.store(OCCUPIED, Ordering::Release);
    }

    fn get(&self, key: u64) -> Option<u64> {
        loop {
            let early = self.tags.load(Ordering::Acquire);
            let version = self.version.load(Ordering::Acquire);
            let late = self.tags.load(Ordering::Acquire);
            let tags = if self.is(Fault::TagsFirst) { early } else { late };
            if tags != OCCUPIED {
                return None;
            }
            let found = (self.key.load(Ordering::Acquire), self.value.load(Ordering::Acquire));
            if found.0 != key {
                return None;
            }
            if self.is(Fault::LooksOnce) || self.version.load(Ordering::Relaxed) == version {
                return Some(found.1);
            }
        }
    }
}

fn check(fault: Fault) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let [version, tags, key, value] = [0, OCCUPIED, KEY, 10].map(AtomicU64::new);
        let bucket = Arc::new(Bucket { fault, version, tags, key, value });
        let writer = {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || {
                for (key, value) in [(OTHER, 20), (KEY, 11)] {
                    bucket.remove();
                    bucket.fill(key, value);
                }
            })
        };
        let found = bucket.get(KEY);
        assert!(matches!(found, None | Some(10 | 11)), "{found:?}");
        writer.join().unwrap();
        assert_eq!(bucket.get(KEY), Some(11));
    });
}

#[test]
fn model_of_words_holds() {
    check(Fault::None);
}

#[test]
#[should_panic(expected = "Some(20)")]
fn model_of_words_that_looks_once_is_caught() {
    check(Fault::LooksOnce);
}

#[test]
#[should_panic(expected = "Some(20)")]
fn model_of_words_with_tags_first_is_caught() {
    check(Fault::TagsFirst);
}

#[test]
#[should_panic(expected = "Some(20)")]
fn model_of_words_that_counts_late_is_caught() {
    check(Fault::CountsLate);
}

#[test]
#[should_panic(expected = "Some(20)")]
fn model_of_words_that_counts_relaxed_is_caught() {
    check(Fault::CountsRelaxed);
}

#[test]
#[should_panic(expected = "Some(20)")]
fn model_of_words_that_stores_relaxed_is_caught() {
    check(Fault::StoresRelaxed);
}
