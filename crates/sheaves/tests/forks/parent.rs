//! The parent: threads in every slow path of every layer, and one that forks meanwhile.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use sheaves::percpu::memory as percpu_memory;
use sheaves::rcu::{Cookie, defer, read};

use crate::child::{self, Inherited};
use crate::kinds::Kind;
use crate::watch::{self, SLOWEST_CHILD_US, SLOWEST_FORK_US, enter, limit};
use crate::work::{self, Dice};
use crate::world::World;
use crate::{FAILED, foreign, memory};

type Activity = fn(&World, &mut Dice);

/// The loops of the threads: each thread repeats one of these.
const ACTIVITIES: &[Activity] = &[
    // Refills and flushes; slabs are created and released.
    |_, dice| work::heap(dice, 600),
    |world, dice| use_caches(world, dice),
    |world, dice| use_caches(world, dice),
    |world, _| use_single(world),
    |_, dice| work::caches(dice, 6),
    |world, dice| trim(world, dice),
    // Seals, rounds, the driver.
    |_, dice| work::defers(1 + dice.below(400)),
    |_, dice| defer_and_go(dice),
    |world, _| wait(world),
    |_, _| work::futures(),
    // Per-CPU objects, which are allocated and freed.
    |_, dice| {
        work::percpu(60);
        work::handles(dice, 60);
        percpu_memory::trim();
    },
    |world, _| work::end_and_begin(&world.lonely),
    |world, _| end_shared(world),
    |world, dice| read_and_count(world, dice),
    |world, dice| work::fill_and_empty(&world.map, 1000, 100 + dice.below(2000) as u64),
];

fn use_caches(world: &World, dice: &mut Dice) {
    for cache in world.caches.iter().chain(&world.doomed) {
        let objects = work::objects(cache, dice.below(400));
        work::free_objects(cache, objects);
    }
}

/// Each free leaves a slab without an allocated object.
fn use_single(world: &World) {
    let [cache] = &world.single;
    for _ in 0..1000 {
        if let Some(object) = work::got(cache.alloc()) {
            // SAFETY: from this cache, not used after.
            unsafe { cache.free(object) };
        }
    }
}

fn trim(world: &World, dice: &mut Dice) {
    match dice.below(4) {
        0 => work::trims(),
        at => drop(world.caches[at - 1].shrink()),
    }
}

/// Leaves the deferred objects to other threads.
fn defer_and_go(dice: &mut Dice) {
    let blocks = work::blocks(dice, 500);
    work::free_blocks(blocks);
    match dice.below(3) {
        0 => defer::flush(),
        1 => drop(defer::reclaim()),
        _ => defer::defer(|| {}),
    }
}

fn wait(world: &World) {
    work::waits();
    work::domain(&world.domain);
    let retired = world.option.store(1);
    retired.map(|retired| retired.synchronize().is_ok());
    let _ = Cookie::start_poll_expedited();
}

/// Kills a count to which other threads take references, and reinitialises it.
fn end_shared(world: &World) {
    work::check(world.shared.kill().is_ok());
    while !world.shared.is_released() {
        thread::yield_now();
    }
    work::check(world.shared.reinit().is_ok());
}

fn read_and_count(world: &World, dice: &mut Dice) {
    let outer = read();
    if world.shared.try_get_live() {
        let inner = read();
        work::counter(&world.counter);
        let _ = world.option.load(&inner);
        let _ = world.map.get(&(1000 + dice.below(2000) as u64), &inner);
        world.shared.put();
        if dice.below(4) == 0 {
            // Other threads wait meanwhile.
            thread::sleep(NAP_MAX);
        }
    }
    drop(outer);
    work::check(world.counter.sum().abs() < 1 << 40);
    // Relaxed: a count.
    world.value.get()[0].fetch_add(1, Ordering::Relaxed);
}

/// Runs a thread that leaves deferred objects and ends. libc must know of forks that run meanwhile.
fn come_and_go() {
    work::in_threads(1, |seed| {
        drop(read());
        defer_and_go(&mut Dice::new(seed));
    });
}

/// Forks with each of `kinds` in turn, the first half in this thread and the second in another.
pub(crate) fn run(kinds: &[Kind], forks: u32) {
    watch::start();
    watch::set_alarm();
    foreign::register_late();
    let world = World::new();
    // libc must know of a fork that runs while threads are created, and they need memory.
    let may_have_threads = kinds.iter().all(|kind| kind.has_handlers()) && !memory::is_to_fail();
    let started = &AtomicUsize::new(0);
    thread::scope(|scope| {
        for (seed, activity) in ACTIVITIES.iter().enumerate() {
            scope.spawn(move || repeat(world, seed as u64, *activity, started));
        }
        let (begin, half) = channel();
        let other = scope.spawn(move || {
            // Release pairs with the Acquire below, as in `repeat`.
            started.fetch_add(1, Ordering::Release);
            half.recv().unwrap();
            fork_in_turn(world, kinds, forks.div_ceil(2)..forks);
        });
        if may_have_threads {
            scope.spawn(move || repeat(world, 99, |_, _| come_and_go(), started));
        } else {
            // The library's threads, too, exist before the first fork.
            work::futures();
            work::defers(10);
            // Acquire pairs with the Release of each thread.
            while started.load(Ordering::Acquire) <= ACTIVITIES.len() {
                thread::sleep(NAP_MAX);
            }
        }
        memory::fail_if_asked();
        fork_in_turn(world, kinds, 0..forks.div_ceil(2));
        begin.send(()).unwrap();
        other.join().unwrap();
        world.stop.store(true, Ordering::Relaxed);
    });
    report(forks);
}

/// The longest time that a thread sleeps between two rounds, so that other threads run theirs.
const NAP_MAX: Duration = Duration::from_millis(3);

fn repeat(world: &World, seed: u64, activity: Activity, started: &AtomicUsize) {
    let mut dice = Dice::new(seed);
    // Release pairs with the Acquire in `run`: the thread has all memory that it needs.
    started.fetch_add(1, Ordering::Release);
    // Relaxed: ends the loop.
    while !world.stop.load(Ordering::Relaxed) {
        activity(world, &mut dice);
        thread::sleep(NAP_MAX.mul_f64(dice.below(100) as f64 / 100.0));
    }
}

fn fork_in_turn(world: &'static World, kinds: &[Kind], numbers: core::ops::Range<u32>) {
    for number in numbers {
        let kind = kinds[number as usize % kinds.len()];
        let mut dice = Dice::new(u64::from(number) + 1000);
        enter(c"prepare");
        let inherited = Inherited::new(world, &mut dice);
        watch::set_alarm();
        enter(c"fork");
        let begin = Instant::now();
        let child = kind.fork();
        if child == 0 {
            child::run(kind, world, inherited, &mut dice);
        }
        // Relaxed: a report.
        SLOWEST_FORK_US.fetch_max(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
        await_child(kind, number, child);
        enter(c"end");
        inherited.end(world);
    }
}

/// Waits for a child, and counts it if it failed.
pub(crate) fn await_child(kind: Kind, number: u32, child: i32) {
    work::check(child > 0);
    enter(c"wait");
    if let Err(why) = watch::wait_for(child, limit()) {
        println!("  fork {number}, {}: {why}", kind.word());
        // Relaxed: a count.
        FAILED.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn report(forks: u32) {
    // Relaxed: all forks are over.
    let failed = FAILED.load(Ordering::Relaxed);
    let [fork, child] = [&SLOWEST_FORK_US, &SLOWEST_CHILD_US]
        .map(|slowest| slowest.load(Ordering::Relaxed) as f64 / 1000.0);
    let refused = watch::REFUSED.load(Ordering::Relaxed);
    println!(
        "  forks {forks}, failed {failed}, refused {refused}, slowest fork {fork:.1} ms, slowest \
         child {child:.1} ms"
    );
}
