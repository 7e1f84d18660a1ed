//! Tests of `src/tables/bulk/contenders.rs`.

use crate::contenders::deferral::Deferral;
use crate::contenders::deferred_bytes;
use crate::tables::bulk::contenders::*;
use sheaves_history::kfree_rcu::{Linked, Pages};
use std::sync::Arc;

/// A second free of an object would make the count negative, which ends the test.
fn check<C: Deferral>(contender: C) {
    // More than a page of pointers of each size.
    const GROUPS: usize = 3000;
    let name = core::any::type_name::<C>();
    let _lock = deferred_bytes::lock();
    let contender = Arc::new(contender);
    assert_eq!(contender.outstanding(), 0, "{name}");
    let work = |contender: &C| {
        if C::COUNTS {
            deferred_bytes::add_deferred(GROUPS * GROUP_BYTES);
        }
        contender.repeat(GROUPS);
    };
    let other = Arc::clone(&contender);
    let thread = std::thread::spawn(move || work(&other));
    work(&contender);
    thread.join().unwrap();
    let finish = || contender.finish();
    let is_free = deferred_bytes::wait_until_free(|| contender.outstanding(), finish);
    assert!(is_free, "{name} keeps objects");
    trim();
}

#[test]
fn what_is_deferred_is_freed_once() {
    let caches = || Caches(make_caches().unwrap());
    check(RcuSheaves { caches: make_caches().unwrap() });
    check(start::<_, Pages>(caches()).unwrap());
    check(start::<_, Linked>(caches()).unwrap());
    check(start::<_, Linked>(Malloc).unwrap());
}
