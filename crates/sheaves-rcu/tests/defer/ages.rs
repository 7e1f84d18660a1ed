//! How long something stays deferred if the program polls, and what statistics report about it.

use core::time::Duration;
use std::thread;

use sheaves_percpu::internal::{EngineMode, SlotKind, facts};
use sheaves_rcu::Srcu;
use sheaves_rcu::defer::{reclaim, statistics as deferred};
use sheaves_rcu::internal::faults::FAULTS;
use sheaves_rcu::internal::reclaimer_thread;

use crate::{
    Object, Reader, all_called, alone, happens_within, is_own, pass_own, seccomp, wait_until,
};

/// The program polls, and the age bound is one millisecond.
const POLLED: [(&str, &str); 2] = [("SHEAVES_RCU_RECLAIMERS", "0"), ("SHEAVES_RCU_AGE_MS", "1")];
/// Longer than the age bound, by any clock.
const AGE: Duration = Duration::from_millis(20);

fn poll_until_called(objects: &[Object]) {
    wait_until("polling", || {
        reclaim();
        all_called(objects, 1)
    });
}

/// Heads that are linked while others wait for their readers get their own grace period.
#[test]
fn linked_heads_do_not_wait_for_a_later_one() {
    let _alone = alone();
    if !is_own() {
        pass_own("ages::linked_heads_do_not_wait_for_a_later_one", &POLLED);
        return;
    }
    FAULTS.fail_one_in(1);
    let objects = Object::many(5);
    let reader = Reader::start();
    for object in objects {
        object.defer();
        thread::sleep(AGE);
        reclaim();
    }
    assert_eq!(deferred().linked_calls.objects, objects.len() as u64);
    // Nothing else is deferred from here on.
    drop(reader);
    poll_until_called(objects);
    assert_eq!(deferred().linked_calls.objects, 0);
}

/// What a drain could not reach is sealed by a later one.
#[test]
fn a_drain_that_is_refused_is_done_again() {
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_ENGINE", "rseq"), POLLED[0], POLLED[1]];
        pass_own("ages::a_drain_that_is_refused_is_done_again", &options);
        return;
    }
    let object = Object::many(1);
    object[0].defer();
    let facts = facts();
    if facts.mode != EngineMode::Rseq || !facts.fence || facts.slot_kind == SlotKind::CpuId {
        println!("skipped: every slot can be reached without a fence");
    } else {
        // The thread that finds the callbacks too old may not interrupt the CPUs.
        thread::scope(|scope| {
            scope.spawn(|| {
                if seccomp::install(&refuse_to_interrupt()).is_err() {
                    println!("skipped: filters are not permitted here");
                    return;
                }
                thread::sleep(AGE);
                reclaim();
                assert!(all_called(object, 0));
            });
        });
    }
    poll_until_called(object);
}

/// A thread that may not start threads arms the age bound. Another one that defers starts it.
#[test]
fn a_start_that_failed_is_tried_again() {
    let _alone = alone();
    if !is_own() {
        pass_own("ages::a_start_that_failed_is_tried_again", &[]);
        return;
    }
    let domain: &Srcu = Box::leak(Box::new(Srcu::new().unwrap()));
    let object = Object::many(1);
    assert_eq!(reclaimer_thread(), None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let calls = [libc::SYS_clone, libc::SYS_clone3];
            if seccomp::install(&seccomp::program(&calls, libc::EAGAIN)).is_err() {
                println!("skipped: filters are not permitted here");
            }
            object[0].defer();
        });
    });
    // This defers less than what is worth a grace period.
    let limit = Duration::from_secs(20);
    assert!(happens_within(limit, || {
        domain.defer(|| ());
        all_called(object, 1)
    }));
}

/// A filter that only refuses the membarrier command which restarts threads' restartable sequences.
fn refuse_to_interrupt() -> [libc::sock_filter; 6] {
    const NUMBER: u32 = 0;
    const FIRST_ARGUMENT: u32 = 16;
    const PRIVATE_EXPEDITED_RSEQ: u32 = 1 << 7;
    let line = |code, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    [
        line(load, 0, 0, NUMBER),
        line(equal, 0, 3, libc::SYS_membarrier as u32),
        line(load, 0, 0, FIRST_ARGUMENT),
        line(equal, 0, 1, PRIVATE_EXPEDITED_RSEQ),
        line(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        line(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// The reported age is that of the oldest object that is not reclaimed.
#[test]
fn the_age_of_what_is_polled_for_does_not_grow() {
    let _alone = alone();
    if !is_own() {
        pass_own("ages::the_age_of_what_is_polled_for_does_not_grow", &POLLED);
        return;
    }
    let (first, rest) = (Object::many(1), Object::many(5));
    let reader = Reader::start();
    first[0].defer();
    thread::sleep(AGE);
    reclaim();
    thread::sleep(AGE);
    let age_ms = deferred().oldest_age_ms;
    assert!(u128::from(age_ms) >= AGE.as_millis(), "{age_ms} ms");
    drop(reader);
    poll_until_called(first);
    assert_eq!(deferred().oldest_age_ms, 0);
    // Also while something is always pending.
    for object in rest {
        object.defer();
        poll_until_called(core::slice::from_ref(object));
        assert_eq!(deferred().oldest_age_ms, 0);
    }
}
