//! Tests of `src/contenders/allocators/peers.rs`.

use super::*;
use crate::contenders::allocators::tests::checks::{churn, exchange};

fn check<C: Allocator>(contender: C) {
    contender.enter_thread();
    let object = contender.alloc(100);
    // SAFETY: the object is fresh and holds a hundred bytes.
    unsafe { object.write_bytes(1, 100) };
    // SAFETY: allocated above and freed once.
    unsafe { contender.free(object, 100) };
}

#[test]
fn every_peer_can_be_called() {
    check(Mimalloc);
    check(MimallocSized);
    check(Jemalloc);
    check(JemallocSized);
    check(Snmalloc);
    check(SnmallocSized);
    check(Rpmalloc::new());
    check(Tcmalloc);
    check(TcmallocSized);
}

#[test]
fn sized_and_unsized_forms_agree_between_threads() {
    churn(&MimallocSized, 64);
    exchange(&JemallocSized, 64);
    exchange(&SnmallocSized, 64);
    churn(&TcmallocSized, 64);
}

#[test]
fn tunables_are_added_to_what_is_there() {
    assert_eq!(tunables(None), "glibc.pthread.rseq=0");
    assert_eq!(
        tunables(Some("glibc.malloc.check=1".to_owned())),
        "glibc.malloc.check=1:glibc.pthread.rseq=0"
    );
}

#[test]
fn the_mode_is_checked() {
    // Whichever holds in this process, it cannot be both.
    assert_ne!(check_mode(PER_CPU).is_ok(), check_mode(PER_THREAD).is_ok());
}
