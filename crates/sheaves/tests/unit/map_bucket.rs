//! Tests of one bucket.

extern crate std;
use super::*;
use crate::map::address::{Address, entry_at};
use crate::map::entry::{Entry, Owned};

use core::mem::zeroed;
use std::boxed::Box;

const TAG: u64 = 0x85;

/// While a lookup compares another key of the bucket, its own key is removed, and inserted by a
/// thread that has not released the lock: others do not find that entry yet.
#[test]
fn an_entry_that_others_do_not_find_yet_is_told_from_a_published_one() {
    let entries = [1, 2, 2].map(|key: u64| Entry::new(key, 0_u64));
    let [other, old, new] = entries;
    // SAFETY: zeros are an empty bucket.
    let bucket: Box<Bucket<Address<u64, u64>>> = Box::new(unsafe { zeroed() });
    let add = |content| {
        let mut held = bucket.lock_free().unwrap();
        // SAFETY: the bucket outlives this, and no other thread has it.
        assert!(unsafe { bucket.add(&mut held.word, TAG, content) }.is_none());
        held
    };
    drop(add(other));
    drop(add(old));
    let mut inserts = None;
    let word = bucket.word();
    let is_it = |content| {
        if entry_at(content) == other {
            let mut held = bucket.lock_free().unwrap();
            held.remove(&Found { bucket: &bucket, place: 1, content: old });
            drop(held);
            inserts = Some(add(new));
        }
        entry_at(content) != other
    };
    // SAFETY: the bucket and the entries outlive this.
    let found = unsafe { bucket.find(word, TAG, is_it) }.unwrap();
    assert!(found.content == new && !found.is_published(TAG));
    drop(inserts);
    assert!(found.is_published(TAG));
    // Made above, and not used any more.
    entries.into_iter().for_each(|entry| drop(Owned(entry)));
}
