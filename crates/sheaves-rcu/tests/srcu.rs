//! Tests of domains of their own.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;

use sheaves_rcu::{Srcu, SrcuGuard};

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn sections_end_on_other_threads() {
    let domain = Srcu::new().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = assert_send(domain.read());
        scope.spawn(|| {
            domain.synchronize();
            done.store(true, Ordering::SeqCst);
        });
        let holder = scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            guard
        });
        let guard: SrcuGuard<'_> = holder.join().unwrap();
        assert!(!done.load(Ordering::SeqCst));
        drop(guard);
    });
    assert!(done.load(Ordering::SeqCst));
}

#[test]
fn domains_do_not_wait_for_each_other() {
    let (first, second) = (Srcu::new().unwrap(), Srcu::new().unwrap());
    let _guard = first.read();
    let _other = sheaves_rcu::read();
    second.synchronize();
}

#[test]
fn readers_beside_updaters() {
    let domain = Srcu::new().unwrap();
    let values: [AtomicUsize; 2] = [AtomicUsize::new(1), AtomicUsize::new(0)];
    let current = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let outer = domain.read();
                    let seen = current.load(Ordering::Acquire);
                    let inner = domain.read();
                    drop(outer);
                    assert_eq!(values[seen].load(Ordering::Relaxed), 1, "read too late");
                    drop(inner);
                }
            });
        }
        for round in 0..20_000 {
            let new = (round + 1) % 2;
            values[new].store(1, Ordering::Relaxed);
            current.store(new, Ordering::Release);
            domain.synchronize();
            values[1 - new].store(0, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_waiters_share() {
    let domain = Srcu::new().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..200 {
                    drop(domain.read());
                    domain.synchronize();
                }
            });
        }
    });
}

#[test]
fn a_child_does_not_wait_for_sections_of_its_parent() {
    let domain = Srcu::new().unwrap();
    let guard = domain.read();
    // SAFETY: the child ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(10) };
        domain.synchronize();
        let own = domain.read();
        drop(guard);
        drop(own);
        domain.synchronize();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    drop(guard);
    domain.synchronize();
}
