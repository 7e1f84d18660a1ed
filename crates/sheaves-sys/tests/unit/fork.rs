//! Tests of private items of `fork`.

extern crate std;
use super::*;

#[path = "../../../sheaves-rcu/tests/handlers/steps.rs"]
mod steps;

const PLACES_MAX: usize = 20_000;
/// A process that hangs is killed after this time.
const ALARM_SECONDS: u32 = 60;

static CHILD: AtomicI32 = AtomicI32::new(0);

fn fork_here() {
    // SAFETY: the child goes on with what was interrupted, and ends by `_exit`.
    CHILD.store(unsafe { libc::fork() }, Ordering::Relaxed);
    // SAFETY: no precondition.
    unsafe { libc::alarm(ALARM_SECONDS) };
}

/// What a thread does around a fork, interrupted after some instructions by a handler that forks.
/// True if nothing is left of either.
fn is_ended(after: usize) -> bool {
    steps::prepare(fork_here, after);
    steps::begin();
    prepare();
    parent();
    steps::end();
    // Relaxed: under the lock.
    !PREPARING.is_owned_here() && NESTED.load(Ordering::Relaxed) == 0
}

#[test]
fn a_fork_may_interrupt_the_handlers_of_another() {
    // SAFETY: integers only. Where SIGCHLD is ignored, a child cannot be waited for.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: no precondition.
    unsafe { libc::alarm(ALARM_SECONDS) };
    let is_place = |after: &usize| {
        let is_ended = is_ended(*after);
        let (mut status, child) = (0, CHILD.load(Ordering::Relaxed));
        if steps::was_called() && child == 0 {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_ended)) };
        }
        assert!(is_ended, "after {after} instructions");
        if steps::was_called() {
            // SAFETY: waits for the child that was just created.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        }
        assert_eq!(status, 0, "after {after} instructions, in the child");
        steps::was_called()
    };
    let places = (0..PLACES_MAX).take_while(is_place).count();
    // SAFETY: no precondition.
    unsafe { libc::alarm(0) };
    assert!((100..PLACES_MAX).contains(&places), "{places}");
}
