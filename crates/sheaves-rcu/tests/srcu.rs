//! Tests of SRCU domains.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use core::time::Duration;
use std::os::unix::thread::JoinHandleExt as _;

use sheaves_rcu::{Srcu, SrcuGuard};

mod children;
#[expect(dead_code, reason = "shared with other test programs, which use all of it")]
mod configurations;
mod full_stderr;

use full_stderr::{in_front_of_full_stderr, is_done_in_time};

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
    // SAFETY: waits for the child that was just created.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    drop(guard);
    domain.synchronize();
}

/// The child's number; 0 in the child, and -1 before the fork.
static CHILD: AtomicI32 = AtomicI32::new(-1);

extern "C" fn fork_here(_: libc::c_int) {
    // SAFETY: the child goes on with what was interrupted, and ends by `_exit`.
    CHILD.store(unsafe { libc::fork() }, Ordering::SeqCst);
}

/// A thread that waits or leads goes on in a child that a handler has forked, without the sections
/// and the other leader of its parent.
#[test]
fn waits_may_be_interrupted_by_a_fork() {
    // SAFETY: the handler is a function of this program.
    unsafe { libc::signal(libc::SIGUSR1, fork_here as *const () as libc::sighandler_t) };
    // SAFETY: this process must be able to wait for children, whatever it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let domain: &Srcu = Box::leak(Box::new(Srcu::new().unwrap()));
    let guard = domain.read();
    let [leader, waiter] = [(); 2].map(|()| {
        let thread = std::thread::spawn(|| {
            domain.synchronize();
            if CHILD.load(Ordering::SeqCst) == 0 {
                drop(domain.read());
                domain.synchronize();
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) };
            }
        });
        // Longer than a thread spins before it sleeps: the first one leads.
        std::thread::sleep(Duration::from_millis(50));
        thread
    });
    let threads = [leader, waiter];
    let have_succeeded = threads.each_ref().map(|thread| {
        CHILD.store(-1, Ordering::SeqCst);
        // SAFETY: the thread exists: it waits for the section.
        assert_eq!(unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) }, 0);
        while CHILD.load(Ordering::SeqCst) == -1 {
            std::thread::yield_now();
        }
        children::has_succeeded(CHILD.load(Ordering::SeqCst), Duration::from_secs(10))
    });
    drop(guard);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(have_succeeded, [true; 2], "the leader, and the other one");
}

/// The domain that the handler reads.
static CURRENT: AtomicPtr<Srcu> = AtomicPtr::new(core::ptr::null_mut());
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn read_current(_: libc::c_int) {
    let domain = CURRENT.load(Ordering::Relaxed);
    // SAFETY: null, or a domain that outlives the timer.
    if let Some(domain) = unsafe { domain.as_ref() } {
        drop(domain.read());
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
}

/// In the child of a fork, each domain writes off its parent's sections at its first read. A
/// handler may interrupt that in the same thread.
#[test]
fn handlers_read_beside_the_first_section_after_a_fork() {
    let domains: Vec<_> = (0..10_000).map(|_| Srcu::new().unwrap()).collect();
    domains.iter().step_by(2).for_each(|domain| core::mem::forget(domain.read()));
    // SAFETY: the child ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: an all-zero action is valid to be filled.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = read_current as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        let interval = libc::timeval { tv_sec: 0, tv_usec: 20 };
        let timer = libc::itimerval { it_interval: interval, it_value: interval };
        // SAFETY: the handler is async-signal-safe, which this test checks.
        unsafe { libc::sigaction(libc::SIGALRM, &raw const action, core::ptr::null_mut()) };
        // SAFETY: the timer is valid.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, core::ptr::null_mut()) };
        for domain in &domains {
            CURRENT.store(core::ptr::from_ref(domain).cast_mut(), Ordering::Relaxed);
            drop(domain.read());
            domain.synchronize();
        }
        let status = i32::from(HANDLED.load(Ordering::Relaxed) == 0);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    let ended = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: polls the child that was just created.
        unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) == child }
    });
    if !ended {
        // SAFETY: this process's child, which was not waited for yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: as above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
    }
    assert!(ended, "a handler waits for the thread that it interrupted");
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:x}");
}

/// In a sandbox the first section after a fork makes no system call that the sandbox may refuse.
#[test]
fn a_child_in_a_sandbox_writes_off_sections() {
    if configurations::in_own_process("a_child_in_a_sandbox_writes_off_sections") {
        return;
    }
    let domains = [(); 2].map(|()| Srcu::new().unwrap());
    domains.iter().for_each(|domain| core::mem::forget(domain.read()));
    let mut program = configurations::seccomp::program(&[libc::SYS_rt_sigprocmask], 0);
    // In place of the error.
    program[2].k = libc::SECCOMP_RET_KILL_PROCESS;
    sheaves_rcu::defer::before_sandbox();
    let ok = children::in_child(Duration::from_secs(10), || {
        if configurations::seccomp::install(&program).is_err() {
            println!("skipped: filters are not permitted here");
        }
        drop(domains[0].read());
        domains.iter().for_each(Srcu::synchronize);
        true
    });
    assert!(ok);
}

/// A line waits where standard error is a pipe that nothing empties. Meanwhile others defer.
#[test]
fn no_thread_waits_for_the_report_of_a_long_section() {
    if configurations::in_own_process("no_thread_waits_for_the_report_of_a_long_section") {
        return;
    }
    sheaves_rcu::stall::set_timeout_ms(50);
    let domain: &'static Srcu = Box::leak(Box::new(Srcu::new().unwrap()));
    let guard = domain.read();
    let is_done = in_front_of_full_stderr(|| {
        domain.defer(|| ());
        // Meanwhile the library's thread reports the section.
        std::thread::sleep(Duration::from_secs(1));
        is_done_in_time(|| domain.defer(|| ()))
    });
    drop(guard);
    assert!(is_done, "a thread waits for the report");
}

/// The same of threads that wait for readers: another one leads.
#[test]
fn no_grace_period_waits_for_the_report_of_a_long_section() {
    if configurations::in_own_process("no_grace_period_waits_for_the_report_of_a_long_section") {
        return;
    }
    sheaves_rcu::stall::set_timeout_ms(50);
    let domain: &'static Srcu = Box::leak(Box::new(Srcu::new().unwrap()));
    let guard = domain.read();
    let is_done = in_front_of_full_stderr(|| {
        std::thread::spawn(|| domain.synchronize());
        // Meanwhile it reports the section.
        std::thread::sleep(Duration::from_secs(1));
        drop(guard);
        is_done_in_time(|| domain.synchronize())
    });
    assert!(is_done, "a grace period waits for the report");
}

#[test]
fn in_every_configuration() {
    configurations::run_all();
}
