//! Threads that are the driver one after the other, where there is no reclaimer.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves_rcu::defer::{Head, barrier};

use crate::{Object, alone, count_call, is_own, pass_own, wait_until};

/// The last of three barriers returns soon after the callback that all of them wait for.
///
/// A driver that takes over from another has to wake the next sleeper when it is done. Uses the
/// median of several rounds, since a busy machine may delay any one of them.
#[test]
fn no_sleeper_is_forgotten() {
    const ROUNDS: usize = 11;
    const CALL: Duration = Duration::from_millis(5);
    const LIMIT: Duration = Duration::from_millis(50);
    static IS_CALLED: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn take_time(head: *mut Head) {
        IS_CALLED.store(true, Ordering::SeqCst);
        thread::sleep(CALL);
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    let _alone = alone();
    if !is_own() {
        pass_own("drivers::no_sleeper_is_forgotten", &[("SHEAVES_RCU_RECLAIMERS", "0")]);
        return;
    }
    let mut slowest: Vec<_> = Object::many(ROUNDS)
        .iter()
        .map(|object| {
            IS_CALLED.store(false, Ordering::SeqCst);
            object.defer_to(take_time);
            let late = || {
                wait_until("the call", || IS_CALLED.load(Ordering::SeqCst));
                timed_barrier()
            };
            thread::scope(|scope| {
                let first = scope.spawn(timed_barrier);
                let others = [scope.spawn(late), scope.spawn(late)];
                let all = [first].into_iter().chain(others);
                all.map(|thread| thread.join().unwrap()).max().unwrap()
            })
        })
        .collect();
    slowest.sort_unstable();
    println!("{slowest:?}");
    assert!(slowest[ROUNDS / 2] < LIMIT, "the slowest of three barriers: {slowest:?}");
}

fn timed_barrier() -> Duration {
    let begin = Instant::now();
    barrier().unwrap();
    begin.elapsed()
}
