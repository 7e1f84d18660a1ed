//! Tests of `src/contenders/deferral.rs`: the contenders of `dispose`.

use crate::contenders::allocators::glibc::Glibc;
use crate::contenders::allocators::library::make_cache;
use crate::contenders::deferral::Deferral;
use crate::contenders::deferred_bytes;
use crate::tables::dispose::memory::OBJECT_BYTES;
use crate::tables::dispose::{crates, global_list, library, memory};
use std::sync::Arc;

/// Defers from two threads, and waits until all is free. A second free of an object would make
/// the count negative, which ends the test.
fn check<C: Deferral>(contender: C) {
    const COUNT: usize = 10_000;
    let name = core::any::type_name::<C>();
    let _lock = deferred_bytes::lock();
    let contender = Arc::new(contender);
    assert_eq!(contender.outstanding(), 0, "{name}");
    let defer = |contender: &C| {
        contender.enter_thread();
        if C::COUNTS {
            deferred_bytes::add_deferred(COUNT * OBJECT_BYTES);
        }
        contender.repeat(COUNT);
        contender.flush_thread();
    };
    let other = Arc::clone(&contender);
    let thread = std::thread::spawn(move || {
        defer(&other);
        other.leave_thread();
    });
    defer(&contender);
    thread.join().unwrap();
    let finish = || contender.finish();
    let is_free = deferred_bytes::wait_until_free(|| contender.outstanding(), finish);
    assert!(is_free, "{name} keeps objects");
    contender.leave_thread();
}

fn check_crates<M: memory::Memory>() {
    check(crates::Seize::<M>::default());
    check(crates::Haphazard::<M>::default());
    #[cfg(feature = "peers")]
    {
        use crate::tables::dispose::liburcu;
        check(crates::CrossbeamWith::<M>::default());
        check(liburcu::CallRcu::<M>::default());
        check(liburcu::DeferRcu::<M>::default());
    }
}

#[test]
fn what_is_deferred_is_freed_once() {
    check(library::RcuSheaves { cache: make_cache("test", OBJECT_BYTES).unwrap() });
    check(library::Floor { cache: make_cache("test", OBJECT_BYTES).unwrap() });
    check(library::Calls { cache: library::cache_of_calls().unwrap() });
    check(library::Without);
    check(global_list::Before::new().unwrap());
    check(crates::Crossbeam);
    check_crates::<Glibc>();
    #[cfg(feature = "peers")]
    check_crates::<crate::contenders::allocators::peers::Mimalloc>();
}
