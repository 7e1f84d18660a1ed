//! The library's own threads.

use std::fs;
use std::thread;

use sheaves_rcu::internal::reclaimer_thread;

use crate::{Object, alone, is_own, pass_own, wait_until};

/// The value of a line in a thread's `status` file.
fn status(thread: i32, line: &str) -> String {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    found.unwrap().trim().to_owned()
}

/// The numbers of the threads whose name begins with this.
fn named(name: &str) -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let numbers = threads.filter_map(|thread| thread.unwrap().file_name().to_str()?.parse().ok());
    numbers.filter(|thread| status(*thread, "Name:").starts_with(name)).collect()
}

fn nice(thread: i32) -> i32 {
    // SAFETY: integers only.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.cast_unsigned()) }
}

/// Changes the CPUs, policy and nice value of the calling thread. True if it may lower the latter
/// again.
fn run_otherwise() -> bool {
    // SAFETY: an all-zero set is valid.
    let mut one: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: no precondition.
    let own = unsafe { libc::gettid() };
    let allowed = status(own, "Cpus_allowed_list:");
    let first: usize = allowed.split(['-', ',']).next().unwrap().parse().unwrap();
    // SAFETY: the number of a CPU of this machine, which is below the set's size.
    unsafe { libc::CPU_SET(first, &mut one) };
    // SAFETY: the set is valid for its size.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) }, 0);
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is valid.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0 {
        println!("skipped: SCHED_FIFO is not permitted here");
    }
    // SAFETY: integers only.
    let set_nice = |nice| unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } == 0;
    let before = nice(0);
    // Twice: if a thread may not lower its nice value again, neither may the threads that it
    // starts.
    set_nice(before + 3) && set_nice(before) && set_nice(before + 3)
}

/// Confines a thread to one CPU.
fn confine(thread: i32) {
    // SAFETY: an all-zero set is valid.
    let mut one: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    let allowed = status(thread, "Cpus_allowed_list:");
    let last: usize = allowed.rsplit(['-', ',']).next().unwrap().parse().unwrap();
    // SAFETY: the number of a CPU of this machine, which is below the set's size.
    unsafe { libc::CPU_SET(last, &mut one) };
    // SAFETY: the set is valid for its size.
    assert_eq!(unsafe { libc::sched_setaffinity(thread, size_of_val(&one), &raw const one) }, 0);
}

/// The reclaimer has the attributes that the main thread has now, not those of the thread that
/// defers first.
#[test]
fn the_reclaimer_does_not_run_as_its_creator() {
    let _alone = alone();
    if !is_own() {
        pass_own("threads::the_reclaimer_does_not_run_as_its_creator", &[]);
        return;
    }
    assert_eq!(reclaimer_thread(), None);
    // SAFETY: no precondition.
    let main = unsafe { libc::getpid() };
    confine(main);
    let objects = Object::many(1);
    let may_be_nice = thread::spawn(|| {
        let may_be_nice = run_otherwise();
        objects[0].defer();
        may_be_nice
    });
    let may_be_nice = may_be_nice.join().unwrap();
    // Not before: while it starts workers, libc blocks all signals in it.
    wait_until("the call", || objects[0].calls() == 1);
    let is_reclaimer = |thread: &i32| status(*thread, "Name:") == "sheaves-rcu";
    let reclaimer = named("sheaves-rcu").into_iter().find(is_reclaimer).unwrap();
    assert_eq!(status(reclaimer, "Cpus_allowed:"), status(main, "Cpus_allowed:"));
    // SAFETY: integers only.
    assert_eq!(unsafe { libc::sched_getscheduler(reclaimer) }, libc::SCHED_OTHER);
    assert!(!may_be_nice || nice(reclaimer) == nice(main), "{}", nice(reclaimer));
    // Every signal except libc's, the two that cannot be blocked, and those that faults raise.
    let blocked = u64::from_str_radix(&status(reclaimer, "SigBlk:"), 16).unwrap();
    let faults =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
    let unblockable = [libc::SIGKILL, libc::SIGSTOP, 32, 33];
    for n in (1..=64).filter(|n| !unblockable.contains(n)) {
        assert_eq!(blocked >> (n - 1) & 1 == 0, faults.contains(&n), "signal {n}");
    }
}

/// There is a worker for each CPU that the program may use, and none on another one.
#[test]
fn workers_run_where_the_program_may() {
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_RCU_RECLAIMERS", "slots")];
        pass_own("threads::workers_run_where_the_program_may", &options);
        return;
    }
    // SAFETY: no precondition.
    let main = unsafe { libc::getpid() };
    confine(main);
    let objects = Object::many(1);
    objects[0].defer();
    // All workers are there before the first call.
    wait_until("the call", || objects[0].calls() == 1);
    let own = named("sheaves-rcu");
    assert_eq!(own.len(), 2, "the reclaimer and a worker");
    own.iter()
        .for_each(|id| assert_eq!(status(*id, "Cpus_allowed:"), status(main, "Cpus_allowed:")));
}
