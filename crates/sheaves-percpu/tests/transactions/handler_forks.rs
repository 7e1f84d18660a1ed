//! A signal handler interrupts a drain and forks, while other threads push and pop. The child ends
//! the drain and uses everything; no object is in a slot and in the hand of a thread.
//!
//! Handlers come at any time, or after each of the first instructions of a drain, and fewer later.
//!
//! Each test has a process of its own: where another thread forks, too, as other tests do to start
//! processes, a child may be ended by a lock that this thread has.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use sheaves_percpu::PerCpu;
use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{Cursor, Word, push_slow};
use sheaves_sys::errno;

use crate::configurations::is_small;
use crate::fast::{pop, push};
use crate::numbers::{cmp_store, drain, is_sentinel, load, pop_slow, vacant};
use crate::own_process;
use crate::sheaves::Sheaf;

#[cfg(target_arch = "x86_64")]
#[expect(dead_code, reason = "shared with the tests of RCU, which use all of it")]
#[path = "../../../sheaves-rcu/tests/handlers/steps.rs"]
mod steps;

const THREADS: usize = 3;
const OBJECTS: usize = 300;
const WORDS: [Word; 6] =
    [Word::new(60), Word::new(61), Word::new(62), Word::new(63), Word::new(64), Word::new(65)];
const CHILD_SECONDS: u32 = 20;

/// The thread that has each object in its hand, 0 for none. Set after the object was taken out of a
/// slot, and cleared before it goes into one.
static OWNERS: [AtomicUsize; OBJECTS] = [const { AtomicUsize::new(0) }; OBJECTS];

/// Objects are even numbers.
fn owner(object: usize) -> &'static AtomicUsize {
    &OWNERS[object / 2]
}

static IS_OVER: AtomicBool = AtomicBool::new(false);
static IN_DRAIN: AtomicBool = AtomicBool::new(false);
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// The child that a drain has.
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn fork_in_drain(_: c_int) {
    // SeqCst, all of this file: the simplest order; only the marks of objects matter.
    if !IN_DRAIN.load(Ordering::SeqCst) || CHILD.load(Ordering::SeqCst) != 0 {
        return;
    }
    // SAFETY: this file tests that the child may go on.
    let process = errno::preserve(|| unsafe { libc::fork() });
    match process {
        0 => {
            IS_CHILD.store(true, Ordering::SeqCst);
            // SAFETY: no precondition. A child that hangs is killed.
            unsafe { libc::alarm(CHILD_SECONDS) };
        }
        process => CHILD.store(process, Ordering::SeqCst),
    }
}

/// Objects that drains took.
static MARKET: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Gives the slot an empty sheaf; returns what was in the slot.
fn replace(word: Word) -> Vec<usize> {
    let _ = attach();
    let current = load(word);
    if current == Cursor::BOOTSTRAP.bits() {
        return Vec::new();
    }
    // SAFETY: not the bootstrap cursor; the sheaf is new.
    let is_replaced = unsafe { cmp_store(word, current, Sheaf::make()) };
    if is_replaced && current != vacant() { Sheaf::objects(current) } else { Vec::new() }
}

/// Moves objects between the slots and its hand.
fn trade(number: usize) {
    let mut hand: Vec<usize> = Vec::new();
    let (mut state, mut step) = (number as u64, 0_usize);
    while !IS_OVER.load(Ordering::SeqCst) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        step += 1;
        let word = WORDS[(state >> 33) as usize % WORDS.len()];
        if state >> 63 == 0 {
            let object = if step.is_multiple_of(2) { pop(word) } else { pop_slow(word) };
            if !is_sentinel(object) {
                owner(object).store(number, Ordering::SeqCst);
                hand.push(object);
            }
        } else if let Some(object) = hand.pop() {
            owner(object).store(0, Ordering::SeqCst);
            // SAFETY: objects are plain numbers here; one that was pushed is not kept.
            let is_pushed = unsafe { push(word, object) };
            // SAFETY: as above.
            if !is_pushed && !unsafe { push_slow(word, object) } {
                owner(object).store(number, Ordering::SeqCst);
                hand.push(object);
                for object in replace(word) {
                    owner(object).store(number, Ordering::SeqCst);
                    hand.push(object);
                }
            }
        } else {
            hand.append(&mut MARKET.lock().unwrap());
        }
    }
    MARKET.lock().unwrap().append(&mut hand);
}

/// A drain is interrupted after this many instructions at most.
#[cfg(target_arch = "x86_64")]
const INSTRUCTIONS_MAX: usize = 4000;

/// What the child does with the sheaves that its drain has taken. Returns its exit code.
fn go_on(mut cursors: Vec<usize>) -> c_int {
    if !drain(&WORDS, &mut |_, cursor| cursors.push(cursor)) {
        return 1;
    }
    let mut objects: Vec<usize> = cursors.into_iter().flat_map(Sheaf::objects).collect();
    if objects.iter().any(|object| owner(*object).load(Ordering::SeqCst) != 0) {
        return 2;
    }
    let count = objects.len();
    objects.sort_unstable();
    objects.dedup();
    if objects.len() != count {
        return 3;
    }
    for word in WORDS {
        replace(word);
        // SAFETY: objects are plain numbers here.
        let pushed = (1..=3).filter(|number| unsafe { push_slow(word, 2 * number) }).count();
        let popped = pop_slow(word);
        let mut left = Vec::new();
        drain(&[word], &mut |_, cursor| left.extend(Sheaf::objects(cursor)));
        if (pushed, popped, left.len()) != (3, 6, 2) {
            return 4;
        }
    }
    let value = PerCpu::<AtomicU64>::zeroed().unwrap();
    value.get().fetch_add(5, Ordering::SeqCst);
    if value.iter().map(|slot| slot.load(Ordering::SeqCst)).sum::<u64>() == 5 { 0 } else { 5 }
}

/// Drains once. In a child that a handler has made meanwhile it does not return.
fn drain_once() {
    drain_by(|take| drain(&WORDS, take));
}

/// A function that is called with the index of a word, and what the drain took out of it.
type Take<'a> = dyn FnMut(usize, usize) + 'a;

fn drain_by(drain: impl FnOnce(&mut Take<'_>) -> bool) {
    let mut cursors = Vec::with_capacity(4 * WORDS.len() * sheaves_percpu::slot_count());
    IN_DRAIN.store(true, Ordering::SeqCst);
    let is_complete = drain(&mut |_, cursor| cursors.push(cursor));
    IN_DRAIN.store(false, Ordering::SeqCst);
    if IS_CHILD.load(Ordering::SeqCst) {
        let code = if is_complete { go_on(cursors) } else { 6 };
        // SAFETY: ends the child without the destructors of the test harness.
        unsafe { libc::_exit(code) };
    }
    assert!(is_complete);
    MARKET.lock().unwrap().extend(cursors.into_iter().flat_map(Sheaf::objects));
}

/// Waits for the child of a drain, if it has one.
fn has_child_ended(is_right: impl Fn(c_int) -> bool) -> bool {
    let (process, mut status) = (CHILD.load(Ordering::SeqCst), -1);
    if process == 0 {
        return false;
    }
    // SAFETY: the status is valid for the call, which is repeated after a signal.
    while unsafe { libc::waitpid(process, &raw mut status, 0) } != process {}
    assert!(is_right(status), "the child failed or hung: {status:#x}");
    CHILD.store(0, Ordering::SeqCst);
    true
}

/// Forks beside the drains; the children end at once.
fn fork_often() {
    while !IS_OVER.load(Ordering::SeqCst) {
        // SAFETY: the child ends.
        let process = unsafe { libc::fork() };
        if process == 0 {
            // SAFETY: no precondition.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        // SAFETY: the status is valid for the call.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        assert_eq!(status, 0);
    }
}

/// Runs `drains` beside threads that trade, and another one; counts the objects afterwards.
fn beside_trade(other: fn(), drains: impl FnOnce()) {
    IS_OVER.store(false, Ordering::SeqCst);
    *MARKET.lock().unwrap() = (0..OBJECTS).map(|number| 2 * number).collect();
    std::thread::scope(|scope| {
        (1..=THREADS).for_each(|number| drop(scope.spawn(move || trade(number))));
        scope.spawn(other);
        let _end = End;
        drains();
    });
    drain_once();
    let mut objects = core::mem::take(&mut *MARKET.lock().unwrap());
    objects.sort_unstable();
    assert!(objects.into_iter().eq((0..OBJECTS).map(|number| 2 * number)), "lost or doubled");
}

/// Set in the processes of these tests.
const PROCESS: &str = "SHEAVES_TEST_HANDLER_FORKS";

/// True where the test has run in a process of its own.
fn has_run(test: &str) -> bool {
    let is_to_run = std::env::var_os(PROCESS).is_none();
    if is_to_run {
        own_process::pass(&format!("handler_forks::{test}"), &[(PROCESS, "1")]);
    }
    is_to_run
}

#[test]
fn a_child_ends_the_drain_that_its_fork_has_interrupted() {
    if has_run("a_child_ends_the_drain_that_its_fork_has_interrupted") {
        return;
    }
    fork_in_drains(if is_small() { 5 } else { 60 }, || (), |status| status == 0);
}

/// Neither fork waits for the other.
#[test]
fn a_handler_does_not_wait_for_another_fork() {
    if has_run("a_handler_does_not_wait_for_another_fork") {
        return;
    }
    fork_in_drains(5, fork_often, |status| status == 0 || status == libc::SIGABRT);
}

fn fork_in_drains(forks: usize, other: fn(), is_right: fn(c_int) -> bool) {
    // SAFETY: an all-zero value is valid.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = fork_in_drain as *const () as usize;
    let (action, before) = (&raw const action, core::ptr::null_mut());
    // SAFETY: the handler forks, which is what this tests.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, action, before) }, 0);
    // A pointer with musl.
    // SAFETY: no precondition.
    let drainer = unsafe { libc::pthread_self() } as usize;
    beside_trade(other, || {
        std::thread::scope(|scope| {
            let signaller = scope.spawn(|| {
                let mut pause = 0;
                while !IS_OVER.load(Ordering::SeqCst) {
                    pause = (pause + 7) % 50;
                    std::thread::sleep(Duration::from_micros(pause));
                    // SAFETY: the thread waits for this one to end.
                    unsafe { libc::pthread_kill(drainer as libc::pthread_t, libc::SIGUSR1) };
                }
            });
            let _end = End;
            let mut ended = 0;
            while ended < forks && !signaller.is_finished() {
                drain_once();
                ended += usize::from(has_child_ended(is_right));
            }
        });
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_drain_may_be_interrupted_after_each_instruction() {
    // Valgrind does not single-step.
    if is_small() || has_run("a_drain_may_be_interrupted_after_each_instruction") {
        return;
    }
    beside_trade(
        || (),
        || {
            let mut after = 0;
            while after < INSTRUCTIONS_MAX {
                steps::prepare(|| fork_in_drain(0), after);
                drain_by(|take| {
                    steps::begin();
                    let is_complete = drain(&WORDS, take);
                    steps::end();
                    is_complete
                });
                if !has_child_ended(|status| status == 0) {
                    break;
                }
                after += 1 + after / 25;
            }
            assert!(after > 100, "{after} instructions");
        },
    );
}

/// Ends the other threads, also when an assertion fails.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        IS_OVER.store(true, Ordering::SeqCst);
    }
}
