//! The cost of deferring a callback, how long a callback waits under light load, and how long each
//! node of a list takes that is dropped node by node.
//!
//! ```sh
//! cargo run --release -p sheaves-rcu --example defer_cost
//! ```
//!
//! Each thread defers a number of callbacks and then waits for all of them. Only the deferring is
//! timed, while the reclaimer runs callbacks in parallel. Prints the best and the median round.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;

use sheaves_rcu::defer::{Head, barrier, call_rcu, statistics};

const ROUNDS: usize = 21;

unsafe extern "C" fn nothing(_: *mut Head) {}

/// Nanoseconds per callback, best and median, with this many threads that each defer this many
/// callbacks.
fn measure(threads: usize, calls: usize) -> (f64, f64) {
    let gate = Barrier::new(threads);
    let all = std::thread::scope(|scope| {
        let body = || {
            let heads: Vec<Head> = (0..calls).map(|_| Head::new()).collect();
            let mut rounds = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                gate.wait();
                let begin = Instant::now();
                for head in &heads {
                    // SAFETY: idle after each barrier, and it lives until the last one.
                    unsafe { call_rcu(core::ptr::from_ref(head).cast_mut(), nothing) };
                }
                rounds.push(begin.elapsed().as_nanos() as f64 / calls as f64);
                barrier().expect("outside of sections and calls");
            }
            rounds
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(body)).collect();
        let rounds = threads.into_iter().flat_map(|thread| thread.join().expect("no panics"));
        rounds.collect::<Vec<f64>>()
    });
    let mut all = all;
    all.sort_by(f64::total_cmp);
    (all[0], all[all.len() / 2])
}

/// Longest time in milliseconds between deferring and the call, with one callback per millisecond;
/// and how often the reclaimer has slept meanwhile.
fn measure_age(calls: u32) -> (f64, u32) {
    static AGE_US: AtomicU64 = AtomicU64::new(0);
    let before = statistics().reclaimer_sleeps;
    for _ in 0..calls {
        let begin = Instant::now();
        sheaves_rcu::defer(move || {
            let age = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
            AGE_US.fetch_max(age, Ordering::Relaxed);
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    let sleeps = statistics().reclaimer_sleeps - before;
    barrier().expect("outside of sections and calls");
    (AGE_US.load(Ordering::Relaxed) as f64 / 1000.0, sleeps)
}

/// Nanoseconds for each of `links` callbacks that defer the next one.
fn measure_chain(links: usize) -> f64 {
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    fn defer_next() {
        sheaves_rcu::defer(|| {
            if LEFT.fetch_sub(1, Ordering::Relaxed) > 1 {
                defer_next();
            }
        });
    }
    LEFT.store(links, Ordering::Relaxed);
    let begin = Instant::now();
    defer_next();
    while LEFT.load(Ordering::Relaxed) != 0 {
        std::thread::sleep(Duration::from_micros(100));
    }
    begin.elapsed().as_nanos() as f64 / links as f64
}

/// The same beside a thread that reads, or has read and waits.
fn measure_chain_beside(links: usize, is_busy: bool) -> f64 {
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    let is_warm = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..1000).for_each(|_| drop(sheaves_rcu::read()));
            is_warm.wait();
            while !STOP.load(Ordering::Relaxed) {
                if is_busy {
                    drop(sheaves_rcu::read());
                } else {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        is_warm.wait();
        let each = measure_chain(links);
        STOP.store(true, Ordering::Relaxed);
        each
    })
}

fn main() {
    println!("list: {:.0} ns a node", measure_chain(1_000_000));
    println!("beside a reader that sleeps: {:.0} ns a node", measure_chain_beside(300_000, false));
    println!("beside a reader: {:.0} ns a node", measure_chain_beside(100_000, true));
    let (age_ms, sleeps) = measure_age(2000);
    println!("light load: oldest {age_ms:.1} ms, reclaimer slept {sleeps} times for 2000 calls");
    for threads in [1, 2] {
        for calls in [1_000, 100_000] {
            let (best, median) = measure(threads, calls);
            println!("{threads} threads, {calls} calls: best {best:.1} ns, median {median:.1} ns");
        }
    }
}
