//! Readers of every kind: long and short, nested, moved, interrupted, in short-lived threads.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use sheaves_rcu::{Cookie, Guard, SrcuGuard, enter_idle, read};

use super::world::{
    DOMAIN, DOMAIN_ELSEWHERE, DOMAIN_HANDLER, HANDLER, MIGRATING, NESTED, PLAIN, SHORT_THREAD,
    WORLD,
};
use crate::cache_misses::CacheMisses;
use crate::pipeline::Item;
use crate::random::Random;
use crate::rounds::Round;

/// The most nested sections.
const NESTING_MAX: usize = 8;
/// Short threads per second, of all threads that create them.
pub(super) const THREADS_PER_SECOND: u64 = 10_000;
/// Short threads that are alive at a time, for each thread that creates them.
const BATCH: usize = 8;
/// Bytes of stack of a short thread.
const STACK_BYTES: usize = 64 << 10;

/// Stays for a moment: mostly a short one, seldom 20 milliseconds.
fn dwell(random: &mut Random) {
    match random.below(10_000) {
        0 => std::thread::sleep(Duration::from_micros(random.below(20_000))),
        1..200 => std::thread::sleep(Duration::from_micros(random.below(200))),
        200..1_000 => std::thread::yield_now(),
        _ => (0..random.below(60)).for_each(|_| core::hint::spin_loop()),
    }
}

/// A section whose begin stays invisible for as long as possible.
///
/// The store of the outermost lock stays in the CPU's store buffer while the loads of the section
/// are done. An updater does not see the reader unless a membarrier makes the CPU wait.
fn duel(misses: &mut CacheMisses, random: &mut Random) {
    let pipeline = &WORLD.pipelines[0];
    // Seldom: the target is a section that begins without a fence, and is not interrupted.
    match random.below(64) {
        0 => enter_idle(),
        1 => _ = Cookie::get(),
        _ => {}
    }
    misses.delay_store(random);
    let guard = read();
    let item = pipeline.find();
    (0..random.below(60)).for_each(|_| core::hint::spin_loop());
    WORLD.check(pipeline, item, PLAIN);
    drop(guard);
}

/// Moves the thread to a random CPU, which may be the same one.
fn migrate(random: &mut Random) {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: an all-zero set is valid and empty.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the number is below that of the set's bits.
    unsafe { libc::CPU_SET(random.below(count as u64) as usize, &mut set) };
    // SAFETY: the set is valid. An error leaves the thread where it is.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// One section of the default domain, of random form.
fn section(random: &mut Random) {
    let pipeline = &WORLD.pipelines[random.below(WORLD.pipelines.len() as u64) as usize];
    let mut guards: [Option<Guard>; NESTING_MAX] = [const { None }; NESTING_MAX];
    guards[0] = Some(read());
    let item = pipeline.find();
    let depth =
        if random.one_in(4) { 1 + random.below(NESTING_MAX as u64 - 1) as usize } else { 0 };
    guards[1..=depth].fill_with(|| Some(read()));
    let is_moved = random.one_in(300);
    if is_moved {
        migrate(random);
    }
    dwell(random);
    // Guards may be dropped in any order: any one of them keeps the section open.
    let last = random.below(depth as u64 + 1) as usize;
    for (_, guard) in guards.iter_mut().enumerate().filter(|(number, _)| *number != last) {
        *guard = None;
    }
    let kind = match (is_moved, depth) {
        (true, _) => MIGRATING,
        (_, 0) => PLAIN,
        _ => NESTED,
    };
    WORLD.check(pipeline, item, kind);
}

/// A thread that reads until the run ends.
pub(super) fn read_on() {
    WORLD.signals.be_target();
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_turn(Round::Few) {
            section(&mut random);
        }
    }
    WORLD.signals.outlast();
}

/// The loop of the reader that also takes part in duels.
pub(super) fn read_and_duel() {
    WORLD.signals.be_target();
    let mut random = Random::new();
    let mut misses = CacheMisses::new();
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_duel() {
            duel(&mut misses, &mut random);
        } else {
            section(&mut random);
        }
    }
    WORLD.signals.outlast();
}

/// A section of the domain that is passed to the thread in which it ends.
pub(super) type Passed = (SrcuGuard<'static>, Item);

/// A thread that reads in the domain, and lets some sections end in another thread.
pub(super) fn read_domain(elsewhere: &SyncSender<Passed>) {
    WORLD.signals.be_target();
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(Round::Crowd) {
            continue;
        }
        let guard = WORLD.domain().read();
        let item = WORLD.domain_pipeline.find();
        if random.one_in(20) {
            // If the channel is full, or closed, the section ends here.
            if let Err(refused) = elsewhere.try_send((guard, item)) {
                let (std::sync::mpsc::TrySendError::Full(passed)
                | std::sync::mpsc::TrySendError::Disconnected(passed)) = refused;
                WORLD.check(&WORLD.domain_pipeline, passed.1, DOMAIN);
            }
            continue;
        }
        let inner = random.one_in(4).then(|| WORLD.domain().read());
        dwell(&mut random);
        WORLD.check(&WORLD.domain_pipeline, item, DOMAIN);
        drop(guard);
        drop(inner);
    }
    WORLD.signals.outlast();
}

/// The loop of the thread that ends sections of the domain which others began.
pub(super) fn end_domain(passed: &Receiver<Passed>) {
    let mut random = Random::new();
    // Ends when all senders have ended.
    while let Ok((guard, item)) = passed.recv() {
        dwell(&mut random);
        WORLD.check(&WORLD.domain_pipeline, item, DOMAIN_ELSEWHERE);
        drop(guard);
    }
}

/// Reads and polls wherever the signal interrupts the thread: inside a section, between two, while
/// it leads a grace period or waits for one.
pub(super) extern "C" fn handle(_: libc::c_int) {
    // The number of handlers so far, instead of a random number, which a handler cannot draw.
    let turn = WORLD.sections[HANDLER].load(Ordering::Relaxed);
    let pipeline = &WORLD.pipelines[turn as usize % WORLD.pipelines.len()];
    let outer = read();
    let item = pipeline.find();
    let inner = read();
    (0..turn % 200).for_each(|_| core::hint::spin_loop());
    drop(outer);
    WORLD.check(pipeline, item, HANDLER);
    drop(inner);
    let guard = WORLD.domain().read();
    let item = WORLD.domain_pipeline.find();
    (0..turn % 100).for_each(|_| core::hint::spin_loop());
    WORLD.check(&WORLD.domain_pipeline, item, DOMAIN_HANDLER);
    drop(guard);
    let cookie = match turn % 16 {
        0 => Cookie::start_poll_expedited(),
        1..8 => Cookie::start_poll(),
        _ => Cookie::get(),
    };
    let _ = cookie.poll();
}

/// A thread that creates threads, each of which lives for one section or two.
pub(super) fn make_threads(makers: u64) {
    let begin = Instant::now();
    let mut made = 0_u64;
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(Round::Crowd) {
            continue;
        }
        let threads: Vec<_> = (0..BATCH).filter_map(|_| short_thread()).collect();
        made += threads.len() as u64;
        WORLD.threads.fetch_add(threads.len() as u64, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a short thread ends");
        }
        // Not faster than the rate, so that other threads get their share of the CPUs.
        let due = Duration::from_micros(made * 1_000_000 * makers / THREADS_PER_SECOND);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
    }
}

/// Starts a thread for one section, or for a few; `None` if the kernel has no more threads.
fn short_thread() -> Option<std::thread::JoinHandle<()>> {
    let reads = || {
        let mut random = Random::new();
        for _ in 0..=random.below(2) {
            let pipeline = &WORLD.pipelines[random.below(3) as usize];
            let guard = read();
            let item = pipeline.find();
            (0..random.below(60)).for_each(|_| core::hint::spin_loop());
            if random.one_in(50) {
                std::thread::yield_now();
            }
            WORLD.check(pipeline, item, SHORT_THREAD);
            drop(guard);
        }
    };
    let body = move || WORLD.signals.be_target_during(reads);
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body).ok()
}
