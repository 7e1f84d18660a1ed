//! Torture: readers of every kind beside updaters of every kind, and a clock made of grace periods.
//!
//! Ten generations of items are under way. One item is current; when it is replaced its age becomes
//! 1, and with every grace period after that it grows by 1, until the item is used anew at age 10.
//! A reader that finds the age of its item above 1 has lasted for a whole grace period, which then
//! was none.
//!
//! Runs for 2 seconds each; `SHEAVES_TORTURE_SECONDS` says otherwise.

use core::cell::Cell;
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Instant;

use sheaves_rcu::{Cookie, Srcu, older, read, synchronize, synchronize_expedited};

const AGE_MAX: u64 = 10;
const ITEMS: usize = 16;

static ALONE: Mutex<()> = Mutex::new(());

/// The pipeline.
struct Pipeline {
    current: AtomicUsize,
    ages: [AtomicU64; ITEMS],
    reads: AtomicU64,
    updates: AtomicU64,
    /// Readers that found an age above 1.
    errors: AtomicU64,
    stop: AtomicBool,
}

static PIPELINE: Pipeline = Pipeline {
    current: AtomicUsize::new(0),
    ages: [const { AtomicU64::new(AGE_MAX) }; ITEMS],
    reads: AtomicU64::new(0),
    updates: AtomicU64::new(0),
    errors: AtomicU64::new(0),
    stop: AtomicBool::new(false),
};

impl Pipeline {
    fn reset(&self) {
        self.ages.iter().for_each(|age| age.store(AGE_MAX, Ordering::Relaxed));
        self.ages[0].store(0, Ordering::Relaxed);
        self.current.store(0, Ordering::Relaxed);
        for counter in [&self.reads, &self.updates, &self.errors] {
            counter.store(0, Ordering::Relaxed);
        }
        self.stop.store(false, Ordering::SeqCst);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What every section does between its begin and its end.
    fn section(&self, dwell: impl FnOnce()) {
        let item = self.current.load(Ordering::Acquire);
        dwell();
        let age = self.ages[item].load(Ordering::Relaxed);
        self.errors.fetch_add(u64::from(age > 1), Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the current item, waits, and lets everything that was replaced grow older.
    fn update(&self, wait: impl FnOnce()) {
        let old = self.current.load(Ordering::Relaxed);
        let is_free = |item: &usize| self.ages[*item].load(Ordering::Relaxed) >= AGE_MAX;
        let new = (0..ITEMS).find(is_free).expect("ten generations are under way at most");
        self.ages[new].store(0, Ordering::Relaxed);
        self.current.store(new, Ordering::Release);
        self.ages[old].store(1, Ordering::Relaxed);
        wait();
        for item in (0..ITEMS).filter(|item| *item != new) {
            let age = self.ages[item].load(Ordering::Relaxed);
            if age < AGE_MAX {
                self.ages[item].store(age + 1, Ordering::Relaxed);
            }
        }
        self.updates.fetch_add(1, Ordering::Relaxed);
    }
}

fn seconds() -> Duration {
    let asked = std::env::var("SHEAVES_TORTURE_SECONDS").ok().and_then(|value| value.parse().ok());
    Duration::from_secs(asked.unwrap_or(2))
}

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// A number below `limit`.
fn random(limit: u64) -> u64 {
    SEED.with(|seed| {
        let mut value = seed.get();
        if value == 0 {
            value = core::ptr::from_ref(seed).addr() as u64 | 1;
        }
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        seed.set(value);
        value % limit
    })
}

/// Stays for a moment, mostly a short one.
fn dwell() {
    match random(2000) {
        0 => std::thread::sleep(Duration::from_micros(random(300))),
        1..40 => std::thread::yield_now(),
        _ => (0..random(50)).for_each(|_| core::hint::spin_loop()),
    }
}

/// Moves to any processor.
fn migrate() {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: an all-zero set is valid and empty.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the number is below that of the set's bits.
    unsafe { libc::CPU_SET(random(count as u64) as usize, &mut set) };
    // SAFETY: the set is valid. A refusal leaves the thread where it is.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

fn section() {
    let guard = read();
    let nested = (random(4) == 0).then(read);
    PIPELINE.section(|| {
        dwell();
        if random(500) == 0 {
            migrate();
        }
        if random(8) == 0 {
            drop(read());
        }
    });
    drop(guard);
    drop(nested);
}

extern "C" fn handler(_: libc::c_int) {
    let guard = read();
    PIPELINE.section(|| (0..20).for_each(|_| core::hint::spin_loop()));
    drop(guard);
    let _ = Cookie::get().poll();
}

/// Waits in one of the ways there are.
fn wait_somehow() {
    match random(6) {
        0 => synchronize_expedited().unwrap(),
        1 => {
            let cookie = Cookie::start_poll();
            while !cookie.poll() {
                std::thread::yield_now();
            }
        }
        2 => {
            let cookie = Cookie::start_poll_expedited();
            drop(read());
            cookie.wait_expedited().unwrap();
        }
        3 => {
            let mut future = pin!(Cookie::get().finished());
            let mut context = Context::from_waker(Waker::noop());
            while future.as_mut().poll(&mut context).is_pending() {
                std::thread::yield_now();
            }
        }
        4 => {
            let _expedited = sheaves_rcu::expedite();
            synchronize().unwrap();
        }
        _ => synchronize().unwrap(),
    }
}

/// Sends signals to readers, and starts threads that live for one section.
fn disturb(readers: &[libc::pthread_t]) {
    while !PIPELINE.stopped() {
        for reader in readers {
            // SAFETY: the readers run until all disturbers have ended.
            unsafe { libc::pthread_kill(*reader, libc::SIGUSR2) };
        }
        for _ in 0..10 {
            std::thread::spawn(section).join().unwrap();
        }
    }
}

/// Runs everything for a while: `update` replaces, `join` only waits.
fn torture(time: Duration, reader: fn(), update: fn(), join: fn()) {
    // SAFETY: an all-zero action is valid to be filled.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is async-signal-safe.
    unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut()) };
    PIPELINE.reset();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let is_done = std::sync::Arc::new(Mutex::new(is_done));
        for _ in 0..4 {
            let (sender, is_done) = (sender.clone(), std::sync::Arc::clone(&is_done));
            scope.spawn(move || {
                // SAFETY: no precondition.
                sender.send(unsafe { libc::pthread_self() }).unwrap();
                while !PIPELINE.stopped() {
                    reader();
                }
                // Threads that are sent signals have to be there until nobody sends any.
                let _ = is_done.lock().unwrap_or_else(PoisonError::into_inner).recv();
            });
        }
        let readers: Vec<_> = (0..4).map(|_| receiver.recv().unwrap()).collect();
        scope.spawn(move || {
            disturb(&readers);
            drop(done);
        });
        for _ in 0..4 {
            scope.spawn(move || {
                while !PIPELINE.stopped() {
                    join();
                    (0..random(200)).for_each(|_| core::hint::spin_loop());
                }
            });
        }
        scope.spawn(move || {
            while !PIPELINE.stopped() {
                PIPELINE.update(update);
            }
        });
        while begin.elapsed() < time && PIPELINE.errors.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        PIPELINE.stop.store(true, Ordering::Relaxed);
    });
}

fn report(what: &str) {
    let [reads, updates, errors] =
        [&PIPELINE.reads, &PIPELINE.updates, &PIPELINE.errors].map(|n| n.load(Ordering::Relaxed));
    println!("{what}: {reads} reads, {updates} updates, {errors} errors");
}

#[test]
fn no_reader_outlasts_a_grace_period() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    torture(seconds(), section, wait_somehow, wait_somehow);
    report("default domain");
    assert_eq!(PIPELINE.errors.load(Ordering::Relaxed), 0);
    assert!(PIPELINE.updates.load(Ordering::Relaxed) > 2 * AGE_MAX);
}

#[test]
fn the_older_form_by_callbacks_is_right() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = || older::synchronize_by_callback().unwrap();
    torture(seconds() / 4, section, wait, wait);
    report("callbacks");
    assert_eq!(PIPELINE.errors.load(Ordering::Relaxed), 0);
}

#[test]
fn the_published_form_is_caught() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = || older::synchronize_as_published().unwrap();
    torture(seconds() * 10, section, wait, wait);
    report("published form");
    assert!(PIPELINE.errors.load(Ordering::Relaxed) > 0, "a wrong form is not noticed");
}

static DOMAIN: std::sync::OnceLock<Srcu> = std::sync::OnceLock::new();

#[test]
fn no_section_outlasts_a_grace_period_of_its_domain() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    DOMAIN.get_or_init(|| Srcu::new().unwrap());
    // Short threads and handlers read in the default domain: they have no items here.
    let section = || {
        let guard = DOMAIN.get().unwrap().read();
        let item = PIPELINE.current.load(Ordering::Acquire);
        let end = move || {
            dwell();
            let age = PIPELINE.ages[item].load(Ordering::Relaxed);
            PIPELINE.errors.fetch_add(u64::from(age > 1), Ordering::Relaxed);
            PIPELINE.reads.fetch_add(1, Ordering::Relaxed);
            drop(guard);
        };
        if random(200) == 0 {
            std::thread::spawn(end).join().unwrap();
        } else {
            end();
        }
    };
    let wait = || DOMAIN.get().unwrap().synchronize();
    PIPELINE.reset();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !PIPELINE.stopped() {
                    section();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while !PIPELINE.stopped() {
                    wait();
                }
            });
        }
        scope.spawn(|| {
            while !PIPELINE.stopped() {
                PIPELINE.update(wait);
            }
        });
        std::thread::sleep(seconds());
        PIPELINE.stop.store(true, Ordering::Relaxed);
    });
    report("own domain");
    assert_eq!(PIPELINE.errors.load(Ordering::Relaxed), 0);
}
