//! Threads to which membarrier is refused after readers have begun to rely on it.
//!
//! Each test has its own process, since a filter cannot be removed.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use sheaves_rcu::{Cookie, Srcu, read, statistics, synchronize};

use crate::configurations::{in_own_process, seccomp};
use crate::leaks::{leak, passes, until};

/// Refuses to the calling thread everything that makes other threads fence. False if filters are
/// not permitted.
fn refuse() -> bool {
    let program =
        seccomp::program(&[libc::SYS_membarrier, libc::SYS_sched_setaffinity], libc::EPERM);
    seccomp::install(&program).is_ok()
}

/// A thread that has read so often that its sections do not fence, and that is now idle.
struct Warm {
    stop: Sender<()>,
}

impl Warm {
    fn start() -> Warm {
        let (stop, stopped) = channel::<()>();
        let (say, is_warm) = channel();
        std::thread::spawn(move || {
            (0..1000).for_each(|_| drop(read()));
            say.send(()).unwrap();
            let _ = stopped.recv();
        });
        is_warm.recv().unwrap();
        Warm { stop }
    }

    fn stop(self) {
        drop(self.stop);
    }
}

/// Runs `body` in a thread to which membarrier is refused. When it has returned, sends whether
/// filters are permitted.
fn refused(body: impl FnOnce() + Send + 'static) -> Receiver<bool> {
    let (say, done) = channel();
    std::thread::spawn(move || {
        let is_refused = refuse();
        if is_refused {
            body();
        }
        say.send(is_refused).unwrap();
    });
    done
}

/// True if a refusal has an effect here: where readers fence, membarrier is not used.
fn is_possible() -> bool {
    !statistics().readers_fence
}

#[test]
fn another_thread_leads() {
    if in_own_process("refusals::another_thread_leads") {
        return;
    }
    let warm = Warm::start();
    let is_over = leak(AtomicBool::new(false));
    let waits = refused(|| {
        synchronize().unwrap();
        is_over.store(true, Ordering::SeqCst);
    });
    // The refused thread does not keep the lead.
    std::thread::sleep(core::time::Duration::from_millis(50));
    if is_possible() && waits.try_recv().is_err() {
        assert!(!is_over.load(Ordering::SeqCst));
    }
    // It has given the lead back.
    synchronize().unwrap();
    let cookie = Cookie::start_poll_expedited();
    until(|| cookie.poll());
    until(|| is_over.load(Ordering::SeqCst) || waits.try_recv() == Ok(false));
    warm.stop();
}

#[test]
fn polls_are_in_vain_until_another_thread_leads() {
    if in_own_process("refusals::polls_are_in_vain_until_another_thread_leads") {
        return;
    }
    let _warm = Warm::start();
    let polls = refused(|| assert!(!is_possible() || !passes()));
    let is_refused = polls.recv_timeout(crate::leaks::DEADLINE).unwrap();
    println!("refused: {is_refused}");
    let cookie = Cookie::start_poll_expedited();
    until(|| cookie.poll());
}

#[test]
fn a_thread_waits_until_the_others_do_not_read() {
    if in_own_process("refusals::a_thread_waits_until_the_others_do_not_read") {
        return;
    }
    let warm = Warm::start();
    let waits = refused(|| synchronize().unwrap());
    std::thread::sleep(core::time::Duration::from_millis(20));
    // No other thread leads. Once the reader has ended, no thread has to be fenced.
    warm.stop();
    assert!(waits.recv_timeout(crate::leaks::DEADLINE).is_ok());
}

#[test]
fn another_thread_leads_in_a_domain() {
    if in_own_process("refusals::another_thread_leads_in_a_domain") {
        return;
    }
    let domain = leak(Srcu::new().unwrap());
    drop(domain.read());
    let is_over = leak(AtomicBool::new(false));
    let waits = refused(|| {
        domain.synchronize();
        is_over.store(true, Ordering::SeqCst);
    });
    std::thread::sleep(core::time::Duration::from_millis(50));
    if is_possible() && waits.try_recv().is_err() {
        assert!(!is_over.load(Ordering::SeqCst));
    }
    // The refused thread takes the lead in between, and gives it back each time.
    until(|| {
        domain.synchronize();
        is_over.load(Ordering::SeqCst) || waits.try_recv() == Ok(false)
    });
}
