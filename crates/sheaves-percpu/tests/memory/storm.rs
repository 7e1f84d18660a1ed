//! Everything at once: threads allocate, use and free per-CPU objects and pass them to each other.
//! Meanwhile they are moved between CPUs and interrupted by signals whose handlers count, too.
//!
//! Every unit that is added anywhere is accounted for at the end.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use sheaves_percpu::{Counter, PerCpu, PerCpuRef, SlotCell, memory};
use sheaves_sys::topology::{Affinity, possible_cpus};

use crate::{Dice, alone, storm_duration};

/// More threads than slots in the smallest configurations, and than most test machines have.
const THREADS: usize = 6;
/// Number of objects that wait for use by another thread.
const PASSED_MAX: usize = 64;

static COUNTER: Counter<6> = Counter::with_batch();
/// What the handlers have added.
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: libc::c_int) {
    COUNTER.add(1);
    // Relaxed: read after all threads have ended.
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Installs the handler, with `SA_RESTART`.
fn install_handler() {
    // SAFETY: all zeroes are a valid action.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is valid, and its handler is async-signal-safe.
    let status =
        unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut()) };
    assert_eq!(status, 0);
}

/// An object, and what has been added to it.
struct Used {
    value: PerCpu<SlotCell<i64>>,
    expected: i64,
    /// An object of a random size, whose last word gets the same additions.
    room: memory::Handle,
}

impl Used {
    fn new(dice: &mut Dice) -> Used {
        let words_max = dice.pick(&[8, 40, 300]);
        let room = memory::alloc(8 * (1 + dice.throw(words_max)), 8).unwrap();
        let value = PerCpu::zeroed().unwrap();
        let used = Used { value, expected: 0, room };
        assert_eq!((used.value.sum(), used.in_room()), (0, 0), "fresh memory is not zero");
        used
    }

    fn last_word(&self) -> usize {
        self.room.size() - 8
    }

    fn in_room(&self) -> usize {
        // SAFETY: changed by transactions only; allocated while this exists.
        unsafe { self.room.cell::<usize>(self.last_word()) }.sum()
    }

    fn add(&mut self, amount: i64) {
        self.value.add(amount);
        // SAFETY: as in `in_room`.
        unsafe { self.room.cell::<usize>(self.last_word()) }.add(amount as usize);
        self.expected += amount;
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        assert_eq!(self.value.sum(), self.expected);
        assert_eq!(self.in_room(), self.expected as usize);
        // SAFETY: the object is not used any more.
        unsafe { memory::free(self.room) }.unwrap();
    }
}

/// What all threads share.
struct Storm {
    until: Instant,
    passed: Mutex<Vec<Used>>,
    shared: PerCpu<SlotCell<u64>>,
    count: PerCpuRef,
    /// Threads that work, and so may be sent signals, by libc's `pthread_t`.
    workers: Mutex<Vec<usize>>,
    running: AtomicBool,
}

impl Storm {
    /// Runs one thread; returns what it added to the shared counters.
    fn work(&self, seed: u64) -> u64 {
        // SAFETY: no precondition. A number in glibc, an address in musl.
        let this = unsafe { libc::pthread_self() as usize };
        self.workers.lock().unwrap().push(this);
        let (mut dice, mut own, mut added) = (Dice(seed), Vec::new(), 0);
        while Instant::now() < self.until {
            for _ in 0..200 {
                match dice.throw(8) {
                    0 => own.push(Used::new(&mut dice)),
                    1 if !own.is_empty() => drop(own.swap_remove(dice.throw(own.len()))),
                    2 => self.pass(&mut own, &mut dice),
                    3 if self.count.try_get_live() => self.count.put(),
                    _ => {
                        COUNTER.add(1);
                        self.shared.add(1);
                        added += 1;
                        if let Some(used) = own.last_mut() {
                            used.add(dice.throw(1000) as i64 - 500);
                        }
                    }
                }
            }
            own.truncate(100);
        }
        self.workers.lock().unwrap().retain(|other| *other != this);
        added
    }

    /// Leaves an object for another thread, or takes one.
    fn pass(&self, own: &mut Vec<Used>, dice: &mut Dice) {
        let mut passed = self.passed.lock().unwrap();
        match own.pop() {
            Some(used) if passed.len() < PASSED_MAX => passed.push(used),
            Some(used) => own.push(used),
            None if !passed.is_empty() => {
                let index = dice.throw(passed.len());
                own.push(passed.swap_remove(index));
            }
            None => {}
        }
    }

    /// Sends signals to the threads that work.
    fn disturb(&self) {
        let mut dice = Dice(99);
        // Relaxed: ends the loop.
        while self.running.load(Ordering::Relaxed) {
            let workers = self.workers.lock().unwrap();
            if !workers.is_empty() {
                let worker = workers[dice.throw(workers.len())] as libc::pthread_t;
                // SAFETY: the thread is alive: it takes itself off the list first.
                let _ = unsafe { libc::pthread_kill(worker, libc::SIGUSR2) };
            }
            drop(workers);
            std::thread::sleep(core::time::Duration::from_micros(50));
        }
    }
}

/// Binds the calling thread to one CPU after the other, so that other threads have to move.
fn migrate(running: &AtomicBool, dice: &mut Dice) {
    let before = Affinity::current().unwrap();
    // Relaxed: ends the loop.
    while running.load(Ordering::Relaxed) {
        if let Some(only) = Affinity::only(dice.throw(possible_cpus())) {
            let _ = only.bind();
        }
        std::thread::sleep(core::time::Duration::from_micros(100));
        if dice.throw(50) == 0 {
            memory::trim();
        }
    }
    assert!(before.bind());
}

#[test]
fn nothing_is_lost() {
    let _alone = alone();
    install_handler();
    let storm = Storm {
        until: Instant::now() + storm_duration(),
        passed: Mutex::new(Vec::new()),
        shared: PerCpu::zeroed().unwrap(),
        count: PerCpuRef::new(|| ()),
        workers: Mutex::new(Vec::new()),
        running: AtomicBool::new(true),
    };
    // The first addition allocates, which handlers may not do.
    COUNTER.add(0);
    let added: u64 = std::thread::scope(|scope| {
        let storm = &storm;
        let workers: Vec<_> =
            (1..=THREADS as u64).map(|seed| scope.spawn(move || storm.work(seed))).collect();
        scope.spawn(|| migrate(&storm.running, &mut Dice(5)));
        scope.spawn(|| storm.disturb());
        let sum = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        storm.running.store(false, Ordering::Relaxed);
        sum
    });
    drop(storm.passed.into_inner().unwrap());
    assert_eq!(storm.shared.sum(), added);
    assert_eq!(storm.count.kill(), Ok(true));
    assert!(storm.count.is_released(), "a reference is missing");
    // Relaxed: all threads have been joined.
    let handled = HANDLED.load(Ordering::Relaxed);
    assert_eq!(COUNTER.sum() as u64, added + handled);
    println!("{added} additions, {handled} in handlers");
}
