//! Threads to which membarrier is refused after readers have begun to rely on it: time takes its
//! place.
//!
//! Each test has its own process, since a filter cannot be removed.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use sheaves_rcu::{Cookie, Srcu, defer, read, statistics, synchronize, synchronize_expedited};

use crate::configurations::{in_own_process, seccomp};
use crate::leaked::leak;
use crate::leaks::{DEADLINE, until};

/// What a grace period takes at least where membarrier is refused.
const STORES_SEEN: Duration = Duration::from_millis(10);

/// A thread that has read so often that its sections do not fence. It stays in a section, or is
/// idle, until it is stopped.
struct Warm {
    stop: Sender<()>,
}

impl Warm {
    fn start(is_reading: bool) -> Warm {
        let (stop, stopped) = channel::<()>();
        let (say, is_warm) = channel();
        std::thread::spawn(move || {
            (0..1000).for_each(|_| drop(read()));
            let section = is_reading.then(read);
            say.send(()).unwrap();
            let _ = stopped.recv();
            drop(section);
        });
        is_warm.recv().unwrap();
        Warm { stop }
    }

    fn stop(self) {
        drop(self.stop);
    }
}

/// Runs `body` in a thread to which everything is refused that makes other threads fence.
fn refused(body: impl FnOnce() + Send + 'static) -> Receiver<bool> {
    let calls = [libc::SYS_membarrier, libc::SYS_sched_setaffinity];
    under(seccomp::program(&calls, libc::EPERM), body)
}

/// Runs `body` in a thread under a filter. When it has returned, sends whether filters are
/// permitted.
fn under(filter: Vec<libc::sock_filter>, body: impl FnOnce() + Send + 'static) -> Receiver<bool> {
    let (say, done) = channel();
    std::thread::spawn(move || {
        let is_permitted = seccomp::install(&filter).is_ok();
        if is_permitted {
            body();
        }
        say.send(is_permitted).unwrap();
        // The filter may not permit what libc calls at the end of a thread.
        loop {
            std::thread::park();
        }
    });
    done
}

/// True if a refusal has an effect here: where readers fence, membarrier is not used.
fn is_possible() -> bool {
    !statistics().readers_fence
}

/// The time that a call takes, if a refusal has an effect here.
fn time(body: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    body();
    if is_possible() { begin.elapsed() } else { STORES_SEEN }
}

#[test]
fn a_grace_period_takes_time() {
    if in_own_process("refusals::a_grace_period_takes_time") {
        return;
    }
    let warm = Warm::start(false);
    let done = refused(|| {
        for _ in 0..3 {
            assert!(time(|| synchronize().unwrap()) >= STORES_SEEN, "no thread was fenced");
        }
    });
    assert!(done.recv_timeout(DEADLINE).is_ok());
    // Those of other threads, too.
    synchronize().unwrap();
    warm.stop();
}

#[test]
fn polls_pass_in_time() {
    if in_own_process("refusals::polls_pass_in_time") {
        return;
    }
    let warm = Warm::start(false);
    let done = refused(|| {
        let cookie = Cookie::start_poll_expedited();
        assert!(time(|| until(|| cookie.poll())) >= STORES_SEEN, "no thread was fenced");
    });
    assert!(done.recv_timeout(DEADLINE).is_ok());
    warm.stop();
}

#[test]
fn readers_are_waited_for() {
    if in_own_process("refusals::readers_are_waited_for") {
        return;
    }
    wait_beside(Warm::start(true), |is_over| {
        refused(move || {
            synchronize().unwrap();
            assert!(is_over.load(Ordering::SeqCst), "it did not wait for the reader");
        })
    });
}

/// A thread that `start` starts waits for a reader, whose section ends after some time. The flag
/// is set right before that.
fn wait_beside(reader: Warm, start: impl FnOnce(&'static AtomicBool) -> Receiver<bool>) {
    let is_over = leak(AtomicBool::new(false));
    let done = start(is_over);
    std::thread::sleep(10 * STORES_SEEN);
    is_over.store(true, Ordering::SeqCst);
    reader.stop();
    assert!(done.recv_timeout(DEADLINE).is_ok());
}

#[test]
fn readers_of_a_domain_are_waited_for() {
    if in_own_process("refusals::readers_of_a_domain_are_waited_for") {
        return;
    }
    let domain = leak(Srcu::new().unwrap());
    let section = domain.read();
    let is_over = leak(AtomicBool::new(false));
    let done = refused(|| {
        domain.synchronize();
        assert!(is_over.load(Ordering::SeqCst), "it did not wait for the reader");
        assert!(time(|| domain.synchronize()) >= STORES_SEEN, "no thread was fenced");
    });
    std::thread::sleep(10 * STORES_SEEN);
    is_over.store(true, Ordering::SeqCst);
    drop(section);
    assert!(done.recv_timeout(DEADLINE).is_ok());
}

/// In a sandbox that ends the process for any of these calls.
#[test]
fn waiting_for_a_reader_asks_the_kernel_nothing_in_a_sandbox() {
    if in_own_process("refusals::waiting_for_a_reader_asks_the_kernel_nothing_in_a_sandbox") {
        return;
    }
    let forbidden = [
        libc::SYS_tgkill,
        libc::SYS_getpid,
        libc::SYS_membarrier,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_gettid,
        libc::SYS_prctl,
        libc::SYS_prlimit64,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_openat,
        libc::SYS_write,
    ];
    let mut filter = seccomp::program(&forbidden, 0);
    for line in filter.iter_mut().filter(|line| line.k == libc::SECCOMP_RET_ERRNO) {
        line.k = libc::SECCOMP_RET_KILL_PROCESS;
    }
    let domain = leak(Srcu::new().unwrap());
    let reader = Warm::start(true);
    defer::before_sandbox();
    wait_beside(reader, |is_over| {
        under(filter, move || {
            synchronize().unwrap();
            assert!(is_over.load(Ordering::SeqCst), "it did not wait for the reader");
            synchronize_expedited().unwrap();
            let cookie = Cookie::start_poll();
            until(|| cookie.poll());
            domain.synchronize();
            defer::defer(|| ());
            defer::barrier().unwrap();
        })
    });
}

/// Their slots cannot be reached from a sandbox.
#[test]
fn a_barrier_in_a_sandbox_runs_what_threads_that_have_ended_have_deferred() {
    const THREADS: usize = 4;
    const CALLS: usize = 200;
    static DONE: AtomicUsize = AtomicUsize::new(0);
    let name = "refusals::a_barrier_in_a_sandbox_runs_what_threads_that_have_ended_have_deferred";
    if in_own_process(name) {
        return;
    }
    let defer_some = || {
        (0..CALLS).for_each(|_| defer::defer(|| _ = DONE.fetch_add(1, Ordering::Relaxed)));
    };
    defer_some();
    defer::before_sandbox();
    // All at the same time, so that they have different slots.
    let all = Arc::new(Barrier::new(THREADS));
    let threads = [(); THREADS].map(|()| {
        let all = Arc::clone(&all);
        std::thread::spawn(move || {
            all.wait();
            defer_some();
            all.wait();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    defer::barrier().unwrap();
    assert_eq!(DONE.load(Ordering::Relaxed), (THREADS + 1) * CALLS);
}
