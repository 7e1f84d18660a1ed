//! Tests of private items of `reader/registry`.

extern crate std;
use super::*;
use crate::reader::section;
use core::sync::atomic::AtomicI32;

#[cfg(target_arch = "x86_64")]
#[path = "../handlers/steps.rs"]
mod steps;

#[test]
fn a_number_that_was_given_out_again_is_told_apart() {
    let own = || owner(super::own().unwrap());
    drop(crate::read());
    // The record of a thread that vanished, whose number the kernel has given to this thread.
    // Its stamp is the one before the first.
    let number = take_free().or_else(take_fresh).unwrap();
    let stale = record(number);
    stale.owner.take(u64::MAX, own().thread());
    // The record is in the section that the thread has left open.
    stale.reader.state.store(reader::FIRST, Ordering::Release);
    assert!(!take_back(number) && owner(stale).is_held() && !take_back(number));
    stale.reader.state.store(OUTSIDE_FENCED, Ordering::Release);
    assert!(take_back(number));
    assert_eq!(owner(stale).thread(), 0);
    // This thread's own record is not taken from it, inside a section or outside.
    let before = own();
    assert!(!take_back(own_number()));
    let guard = crate::read();
    assert!(!take_back(own_number()));
    assert!(crate::is_reading());
    drop(guard);
    assert_eq!(own(), before);
}

#[test]
fn the_record_of_a_child_without_handlers_is_its_own() {
    drop(crate::read());
    // SAFETY: integers only. Where SIGCHLD is ignored, a child cannot be waited for.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let null = core::ptr::null_mut::<u8>();
    // SAFETY: the child has a copy of the stack, and ends below.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, null, null, null, 0) };
    if child == 0 {
        let own = own_number();
        let guard = crate::read();
        let is_kept = !take_back(own) && !owner(record(own)).is_held();
        drop(guard);
        let status = i32::from(!is_kept || take_back(own));
        // SAFETY: ends the child, which has waited for nothing.
        unsafe { libc::_exit(status) };
    }
    let child = i32::try_from(child).unwrap();
    let mut status = -1;
    for _ in 0..10_000 {
        thread::sleep_ns(1_000_000);
        // SAFETY: waits for the child that was just created.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } != 0 {
            break;
        }
    }
    if status == -1 {
        // SAFETY: the child that was just created, which hangs.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    assert_eq!(status, 0, "the child's own record was taken from it");
}

/// Interrupts what a new thread does after each instruction by a handler that forks.
#[cfg(target_arch = "x86_64")]
fn fork_at_each_instruction(places_min: usize, body: fn(), is_right: fn() -> bool) {
    const PLACES_MAX: usize = 5000;
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    static CHILD: AtomicI32 = AtomicI32::new(0);
    fn fork_here() {
        // SAFETY: the child goes on with what was interrupted, and ends by `_exit`.
        CHILD.store(unsafe { libc::fork() }, Ordering::Relaxed);
    }
    let run = move |after| {
        steps::prepare(fork_here, after);
        steps::begin();
        body();
        steps::end();
        // Relaxed: written by this thread.
        if steps::was_called() && CHILD.load(Ordering::Relaxed) == 0 {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_right())) };
        }
    };
    let _alone = ALONE.lock();
    // SAFETY: integers only. Where SIGCHLD is ignored, a child cannot be waited for.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let is_place = |after: &usize| {
        let after = *after;
        std::thread::spawn(move || run(after)).join().unwrap();
        let is_place = steps::was_called();
        let (mut status, child) = (0, CHILD.load(Ordering::Relaxed));
        // SAFETY: waits for the child that was just created.
        let found = is_place && unsafe { libc::waitpid(child, &raw mut status, 0) } == child;
        assert!(found == is_place && status == 0, "after {after} instructions: {status:x}");
        is_place
    };
    let places = (0..PLACES_MAX).take_while(is_place).count();
    assert!((places_min..PLACES_MAX).contains(&places), "{places}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_record_names_its_thread_in_a_child_of_a_handler() {
    let is_right = || owner(super::own().unwrap()).thread() == thread::id();
    fork_at_each_instruction(100, || drop(crate::read()), is_right);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_section_without_a_record_counts_once_in_a_child_of_a_handler() {
    let body = || {
        section::enter_shared();
        section::leave_shared();
    };
    // Relaxed: the child's only thread.
    fork_at_each_instruction(30, body, || OVERFLOW.load(Ordering::Relaxed) == 0);
}

fn own_number() -> u32 {
    let own = super::own().unwrap();
    (0..count()).find(|number| core::ptr::eq(record(*number), own)).unwrap()
}

fn owner(record: &Record) -> Seen {
    record.owner.load()
}
