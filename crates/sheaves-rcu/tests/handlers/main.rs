//! Read sections, interrupted at every instruction.
//!
//! A thread enters, leaves, nests, goes idle, registers or ends. A signal handler interrupts it
//! after one of its instructions, in each run another one; it opens a section and finds the
//! published object. While the handler uses that, another thread replaces the object, takes a
//! cookie, polls it, and frees what the cookie permits. The property: neither the handler nor the
//! interrupted thread uses an object that is freed.

#![cfg(target_arch = "x86_64")]

#[expect(dead_code, reason = "shared with other test programs, which use all of it")]
#[path = "../configurations/mod.rs"]
mod configurations;
mod domains;
mod idle_bits;
mod objects;
mod steps;

use core::ffi::c_void;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sheaves_rcu::{Cookie, enter_idle, raw, read};

use configurations::in_own_process;
use objects::{OBJECTS, Waiting, check, find, replace};

/// A process that hangs is killed after this time.
const ALARM_SECONDS: u32 = 280;
/// More sections than it takes until a thread reads without fences.
const WARM: usize = 300;

/// Only one thread is single-stepped at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills the process if it hangs, whatever signal state it has inherited.
fn set_deadline() {
    // SAFETY: an all-zero set is valid to be filled.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is valid, here and below.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGALRM) };
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut()) };
    // SAFETY: the signal has no handler in this process.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    // SAFETY: an integer only.
    unsafe { libc::alarm(ALARM_SECONDS) };
}

/// What a thread does before it is interrupted, and what it does then.
struct Scenario {
    name: &'static str,
    /// Runs in a new thread each time.
    is_fresh: bool,
    before: fn(),
    body: fn(),
}

/// Scenarios of a thread that has read often.
const fn warm(name: &'static str, before: fn(), body: fn()) -> Scenario {
    Scenario { name, is_fresh: false, before, body }
}

/// Scenarios of a new thread.
const fn fresh(name: &'static str, before: fn(), body: fn()) -> Scenario {
    Scenario { name, is_fresh: true, before, body }
}

const GRACE_PERIODS: Waiting = Waiting {
    ask: || Cookie::start_poll_expedited().to_bits(),
    poll: |cookie| Cookie::from_bits(cookie).poll(),
};

fn section() {
    let guard = read();
    let object = find();
    check(object);
    drop(guard);
}

fn nested() {
    let outer = read();
    let object = find();
    let inner = read();
    drop(outer);
    check(object);
    drop(inner);
}

fn counted() {
    raw::lock();
    let object = find();
    raw::lock();
    // SAFETY: two sections were begun above.
    unsafe { raw::unlock() };
    check(object);
    // SAFETY: as above.
    unsafe { raw::unlock() };
}

fn last_fenced() {
    nested();
    section();
}

fn goes_idle() {
    enter_idle();
    section();
}

fn takes_a_cookie() {
    let _ = Cookie::get();
    section();
}

/// The handler's section.
fn handle() {
    let guard = read();
    let object = find();
    replace();
    check(object);
    drop(guard);
}

fn read_often(times: usize) {
    (0..times).for_each(|_| drop(read()));
}

fn heat() {
    read_often(WARM);
}

fn rest() {
    heat();
    enter_idle();
    // A grace period that finds the thread idle.
    let cookie = Cookie::start_poll_expedited();
    let _ = cookie.poll();
}

const SCENARIOS: [Scenario; 9] = [
    fresh("first sections", || {}, nested),
    fresh("fenced sections", || read_often(9), counted),
    fresh("last fenced sections", || read_often(255), last_fenced),
    warm("warm", heat, nested),
    warm("warm, counted", heat, counted),
    warm("rested", rest, nested),
    warm("rested, counted", rest, counted),
    warm("goes idle and reads", heat, goes_idle),
    warm("takes a cookie and reads", heat, takes_a_cookie),
];

/// The result of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    /// Number of instructions after which the handler ran.
    places: usize,
    /// How often a freed object was in use.
    wrong: usize,
}

/// Runs a scenario once for each of its instructions.
fn survey(waiting: Waiting, scenario: &Scenario, handler: fn()) -> Found {
    let (before, body) = (scenario.before, scenario.body);
    let run = move |after| {
        before();
        steps::prepare(handler, after);
        steps::begin();
        body();
        steps::end();
    };
    let in_new_thread = |after| std::thread::spawn(move || run(after)).join().expect("it ends");
    let mut places = 0;
    let wrong = objects::beside_updater(waiting, || {
        places = if scenario.is_fresh { count_places(in_new_thread) } else { count_places(run) };
    });
    Found { places, wrong }
}

/// Counts the instructions after which `run` was interrupted.
fn count_places(run: impl Fn(usize)) -> usize {
    let is_place = |after: &usize| {
        run(*after);
        steps::was_called()
    };
    (0..OBJECTS - 1).take_while(is_place).count()
}

/// What is wrong in each scenario, as text; empty if nothing is.
fn survey_all() -> String {
    let mut wrong = String::new();
    for scenario in &SCENARIOS {
        let found = survey(GRACE_PERIODS, scenario, handle);
        let line = format!("{}: {found:?}\n", scenario.name);
        print!("{line}");
        if found.wrong != 0 || found.places < 10 {
            wrong.push_str(&line);
        }
    }
    wrong
}

#[test]
fn a_handler_is_waited_for_at_every_instruction() {
    let _alone = alone();
    if in_own_process("a_handler_is_waited_for_at_every_instruction") {
        return;
    }
    set_deadline();
    let wrong = survey_all();
    assert!(wrong.is_empty(), "{wrong}");
}

/// A thread that reads, and is interrupted after the given number of instructions of its end.
extern "C" fn read_and_end(after: *mut c_void) -> *mut c_void {
    heat();
    steps::prepare(handle, after.expose_provenance());
    steps::begin();
    core::ptr::null_mut()
}

#[test]
fn a_handler_is_waited_for_while_its_thread_ends() {
    let _alone = alone();
    if in_own_process("a_handler_is_waited_for_while_its_thread_ends") {
        return;
    }
    set_deadline();
    let run = |after: usize| {
        let mut thread: libc::pthread_t = 0;
        let argument = core::ptr::without_provenance_mut(after);
        let thread_at = &raw mut thread;
        // SAFETY: the argument is a number.
        let status =
            unsafe { libc::pthread_create(thread_at, core::ptr::null(), read_and_end, argument) };
        assert_eq!(status, 0);
        // SAFETY: created above, and joined once.
        assert_eq!(unsafe { libc::pthread_join(thread, core::ptr::null_mut()) }, 0);
    };
    let mut places = 0;
    let wrong = objects::beside_updater(GRACE_PERIODS, || places = count_places(run));
    println!("{wrong} wrong of {places}");
    assert!(wrong == 0 && places > 100);
}

#[test]
fn bits_of_idle_threads_are_found_to_be_broken() {
    let _alone = alone();
    set_deadline();
    let body = || {
        idle_bits::enter();
        check(find());
        idle_bits::leave();
    };
    let scenario = warm("idle bits", idle_bits::rest, body);
    let found = survey(idle_bits::WAITING, &scenario, || {
        idle_bits::enter();
        let object = find();
        replace();
        check(object);
        idle_bits::leave();
    });
    println!("{found:?}");
    assert!(found.wrong != 0 && found.places > 10, "{found:?}");
}

/// The other way to order readers, and the other engine for domains.
#[test]
fn in_every_configuration() {
    let _alone = alone();
    if std::env::var_os("SHEAVES_EXPECT").is_some() {
        return;
    }
    let runs = [("rseq cid, fences", "every_instruction"), ("portable, membarrier", "domains")];
    for (name, tests) in runs {
        let mut all = configurations::all().into_iter();
        let configuration = all.find(|one| one.name == name).expect("there is one of that name");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([tests, "in_effect"]);
        configurations::configure(&mut command, &configuration);
        let output = configurations::finish(name, command.output(), 2);
        assert_ne!(output, Some(false), "{name}");
    }
}
