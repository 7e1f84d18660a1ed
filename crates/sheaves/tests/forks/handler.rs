//! A program with one thread, which a signal handler forks at any instruction. Parent and child
//! both return to the interrupted code and finish it.

use core::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use sheaves::rcu::defer;

use crate::child::{self, Inherited};
use crate::kinds::Kind;
use crate::memory;
use crate::parent::{await_child, report};
use crate::watch::{self, SLOWEST_FORK_US, enter};
use crate::work::{self, Dice};
use crate::world::World;

/// No fork yet; any other value is the result of the fork.
const NONE: i32 = -2;
static CHILD: AtomicI32 = AtomicI32::new(NONE);
/// The longest time until the signal is sent, in microseconds.
const SIGNAL_US_MAX: usize = 12_000;

extern "C" fn fork_here(_: libc::c_int) {
    let begin = Instant::now();
    let child = Kind::Handler.fork();
    // Relaxed, all of this file: one thread.
    CHILD.store(child, Ordering::Relaxed);
    if child > 0 {
        SLOWEST_FORK_US.fetch_max(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

/// Arranges that the signal is sent once, after `microseconds` of CPU time.
fn set_timer(microseconds: usize) {
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let once = libc::timeval { tv_sec: 0, tv_usec: microseconds as _ };
    let value = libc::itimerval { it_interval: never, it_value: once };
    // SAFETY: a valid time, and the old one is not requested.
    let status =
        unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const value, core::ptr::null_mut()) };
    work::check(status == 0);
}

pub(crate) fn run(forks: u32) {
    watch::start();
    watch::set_alarm();
    let action: extern "C" fn(libc::c_int) = fork_here;
    // SAFETY: a handler of this program.
    unsafe { libc::signal(libc::SIGPROF, action as *const () as libc::sighandler_t) };
    let world = World::new();
    memory::fail_if_asked();
    for number in 0..forks {
        let mut dice = Dice::new(u64::from(number) + 1);
        let inherited = Inherited::new(world, &mut dice);
        watch::set_alarm();
        CHILD.store(NONE, Ordering::Relaxed);
        set_timer(1 + dice.below(SIGNAL_US_MAX));
        while CHILD.load(Ordering::Relaxed) == NONE {
            step(world, &mut dice);
        }
        let child = CHILD.load(Ordering::Relaxed);
        if child == 0 {
            child::run(Kind::Handler, world, inherited, &mut dice);
        }
        await_child(Kind::Handler, number, child);
        enter(c"end");
        inherited.end(world);
    }
    report(forks);
}

/// Runs something short of a random kind.
fn step(world: &World, dice: &mut Dice) {
    match dice.below(8) {
        0 => work::caches(dice, 2),
        1 => work::percpu(10),
        2 => work::handles(dice, 10),
        3 => work::defers(20),
        4 => work::end_and_begin(&world.lonely),
        5 => work::trims(),
        6 => drop(defer::reclaim()),
        _ => {
            for cache in &world.caches {
                let objects = work::objects(cache, 200);
                work::free_objects(cache, objects);
            }
        }
    }
    work::heap(dice, 300);
}
