//! Tests of entries that wait for their grace period, in children of forks.

extern crate std;
use super::*;
use crate::map::alone::alone;

use core::time::Duration;
use std::sync::mpsc::channel;
use std::vec::Vec;

static LIMBO: Limbo<u64, Vec<u64>> = Limbo::new(None);

fn retire(number: u64) {
    // SAFETY: made here, and in no table.
    unsafe { LIMBO.retire(0, Entry::new(number, Vec::new())) };
}

/// True when a child that retires entries ends in time and without an error.
fn ends_well(make_child: impl Fn() -> i32) -> bool {
    let child = make_child();
    if child == 0 {
        (0..1000).for_each(retire);
        let is_over = LIMBO.shards[0].0.try_lock().is_some();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_over)) };
    }
    let mut status = -1;
    for _ in 0..5000 {
        // SAFETY: waits for the child only.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } != 0 {
            return status == 0;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: the child exists: it was not waited for yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    false
}

/// A child of any fork can use a map that another thread was changing.
#[test]
fn lists_that_another_thread_had_are_forgotten() {
    let _alone = alone();
    // SAFETY: this process waits for its children, whatever disposition it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    (0..10).for_each(retire);
    let ((begin, is_held), (end, is_over)) = (channel(), channel::<()>());
    let other = std::thread::spawn(move || {
        let mut lists = LIMBO.shards[0].0.lock();
        // Half changed: the entries would be freed twice.
        let open = lists.open.0;
        lists.sealed.0 = open;
        begin.send(()).unwrap();
        is_over.recv().unwrap();
        lists.sealed.0 = null_mut();
    });
    is_held.recv().unwrap();
    // SAFETY: the child uses only what is tested, and exits.
    let forked = ends_well(|| unsafe { libc::fork() });
    // SAFETY: as above; it has a copy of the stack.
    let cloned = ends_well(|| unsafe {
        let null = null_mut::<u8>();
        libc::syscall(libc::SYS_clone, libc::SIGCHLD, null, null, null, 0) as i32
    });
    end.send(()).unwrap();
    other.join().unwrap();
    assert!(forked && cloned, "{forked} {cloned}");
}
