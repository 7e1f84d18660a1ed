//! The stack of sheaves: no thread gets a sheaf that another one owns, and its contents are visible
//! to its new owner.
//!
//! The real `Stack`, on an array of links instead of the pool. The broken variant is the same stack
//! without a changing tag, which has the ABA problem.

use std::sync::Arc;
use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::protocol::stack::{Links, Stack};

struct Pool<const TAGGED: bool> {
    stack: Stack<TAGGED>,
    /// Links by number; 0 is unused.
    links: Vec<AtomicU32>,
    /// Contents, to be accessed by the owner only, which loom checks.
    contents: Vec<UnsafeCell<u32>>,
}

// SAFETY: only the owner of a sheaf uses its contents, which is what the model checks.
unsafe impl<const TAGGED: bool> Sync for Pool<TAGGED> {}
// SAFETY: as above.
unsafe impl<const TAGGED: bool> Send for Pool<TAGGED> {}

impl<const TAGGED: bool> Links for Pool<TAGGED> {
    fn link(&self, number: u32) -> u32 {
        self.links[number as usize].load(Ordering::Relaxed)
    }

    fn set_link(&self, number: u32, next: u32) {
        self.links[number as usize].store(next, Ordering::Relaxed);
    }
}

impl<const TAGGED: bool> Pool<TAGGED> {
    /// Sheaves `1..=count`, all stacked, 1 on top.
    fn new(count: u32) -> Arc<Pool<TAGGED>> {
        let links = (0..=count).map(|_| AtomicU32::new(0)).collect();
        let contents = (0..=count).map(|_| UnsafeCell::new(0)).collect();
        let pool = Arc::new(Pool { stack: Stack::new(), links, contents });
        for number in (1..=count).rev() {
            pool.push(number);
        }
        pool
    }

    fn pop(&self) -> Option<u32> {
        let number = self.stack.pop(self)?;
        self.touch(number);
        Some(number)
    }

    fn push(&self, number: u32) {
        self.touch(number);
        self.stack.push(self, number);
    }

    /// Writes to a sheaf as its owner.
    fn touch(&self, number: u32) {
        // SAFETY: the caller owns the sheaf; where that is wrong, loom reports it.
        self.contents[number as usize].with_mut(|contents| unsafe { *contents += 1 });
    }

    /// Pops the whole stack, and checks that each sheaf is there once.
    fn count(&self) -> usize {
        let mut found = Vec::new();
        while let Some(number) = self.pop() {
            assert!(!found.contains(&number), "sheaf {number} is stacked twice");
            found.push(number);
        }
        found.len()
    }
}

/// One thread pops a sheaf and keeps it, the other pops two and pushes the first one again.
fn two_takers<const TAGGED: bool>() {
    loom::model(|| {
        let pool = Pool::<TAGGED>::new(3);
        let other = Arc::clone(&pool);
        let taker = thread::spawn(move || {
            let held = other.pop();
            // The owner of a sheaf may write to it at any time.
            held.into_iter().for_each(|number| other.touch(number));
            held
        });
        let (first, second) = (pool.pop(), pool.pop());
        first.into_iter().for_each(|number| pool.push(number));
        second.into_iter().for_each(|number| pool.touch(number));
        let held = taker.join().unwrap();
        assert!(held.is_none() || held != second, "two threads own a sheaf");
        let out = usize::from(second.is_some()) + usize::from(held.is_some());
        assert_eq!(pool.count() + out, 3, "a sheaf is lost");
    });
}

#[test]
fn model_of_two_takers() {
    two_takers::<true>();
}

#[test]
#[should_panic(expected = "a sheaf is lost")]
fn model_without_a_tag_is_caught() {
    two_takers::<false>();
}

#[test]
fn model_of_two_givers_and_a_taker() {
    loom::model(|| {
        let pool = Pool::<true>::new(3);
        let (first, second) = (pool.pop().unwrap(), pool.pop().unwrap());
        let givers = [first, second].map(|number| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.push(number))
        });
        let taken = pool.pop();
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        assert!(taken.is_some());
        assert_eq!(pool.count(), 2);
    });
}
