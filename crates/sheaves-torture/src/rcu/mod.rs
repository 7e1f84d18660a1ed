//! Torture of grace periods: of the default domain, and of a domain of its own.
//!
//! - Readers: sections of random length, nested, in signal handlers at any instruction, in threads
//!   that are moved between processors, and in threads that live for one section; those of the
//!   domain also end on other threads.
//! - Updaters: each has a pipeline of structures of ten generations. One blocks (`synchronize`,
//!   expedited, under expedite guards, on cookies), one polls and one awaits, with thirty items
//!   under way; one waits for the domain. Others only wait, and come in the middle.
//! - What must not happen: a reader sees a structure that a grace period has made older than
//!   readers may see; somebody waits for ever; a kind of update never comes to its end; a reader
//!   that stays is not reported.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Instant;

use sheaves_rcu::{Srcu, read, stall, statistics};

mod lie;
mod readers;
mod report;
mod updaters;
mod world;

pub use report::{Leak, Report};
use world::WORLD;

/// What is asked of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long it lasts.
    pub duration: Duration,
    /// A mistake to make, which has to be found.
    pub broken: Option<Broken>,
    /// A reader stays in its section until it is reported.
    pub leak: bool,
}

/// Mistakes that a run can make, to show that it would find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Broken {
    /// Wake all who wait when a grace period ends, also who came in its middle.
    Published,
    /// Have the kernel say that it made all threads fence, and not do it. Lasts for the process.
    Membarrier,
    /// Wait for one index of a domain only: a flip and no more.
    SingleFlip,
    /// Take cookies before what they stand for is unlinked.
    EarlyCookie,
}

/// A reader that stays has to be reported within this time.
const LEAK_MS_MAX: u64 = 1_500;
/// Somebody who has not come to his end by this time after the end of the run never will.
const END_SECONDS: u64 = 60;

static ALONE: Mutex<()> = Mutex::new(());

/// Runs everything. One run at a time in a process; others wait.
///
/// # Errors
/// One line, where the run cannot begin.
pub fn run(options: &Options) -> Result<Report, String> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if options.broken == Some(Broken::Membarrier) {
        lie::about_membarriers().map_err(|error| format!("no filter can be set: {error}"))?;
    }
    if WORLD.domain.get().is_none() {
        let domain = Srcu::new().map_err(|error| format!("there is no domain: {error}"))?;
        let _ = WORLD.domain.set(domain);
    }
    WORLD.reset();
    readers::prepare_handler();
    let (begin, before) = (Instant::now(), statistics());
    let mut threads = start(options.broken);
    let mut leak = None;
    if options.leak {
        leak = Some(leak_a_reader());
    }
    // A mistake has been found with the first error; there is no need to wait for more.
    let is_over = || begin.elapsed() >= options.duration || WORLD.errors() != 0;
    for (round, milliseconds) in world::ROUNDS.into_iter().cycle() {
        WORLD.begin_round(round);
        let end = Instant::now() + Duration::from_millis(milliseconds);
        while Instant::now() < end && !is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
        if is_over() {
            break;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    WORLD.stop();
    let stuck = end(&mut threads);
    Ok(Report::new(seconds, before, leak, &stuck))
}

/// Threads of each kind, and how many of them.
fn start(broken: Option<Broken>) -> Vec<JoinHandle<()>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let readers = processors.max(2);
    let makers = processors.clamp(2, 8);
    let mut threads = Vec::new();
    let mut start = |name: &str, count: usize, body: Box<dyn Fn() + Send + Sync>| {
        let body = std::sync::Arc::new(body);
        for _ in 0..count {
            let body = std::sync::Arc::clone(&body);
            let thread = std::thread::Builder::new().name(name.into()).spawn(move || body());
            threads.push(thread.expect("a thread"));
        }
    };
    let (sender, receiver) = std::sync::mpsc::sync_channel(64);
    let receiver = Mutex::new(Some(receiver));
    start(
        "ends-domain",
        1,
        Box::new(move || {
            let receiver = receiver.lock().ok().and_then(|mut receiver| receiver.take());
            receiver.iter().for_each(readers::end_domain);
        }),
    );
    start("reads-and-duels", 1, Box::new(readers::read_and_duel));
    start("reads", readers - 1, Box::new(readers::read_on));
    start("reads-domain", readers, Box::new(move || readers::read_domain(&sender)));
    start("makes-threads", makers, Box::new(move || readers::come_and_go(makers as u64)));
    start("blocks", 1, Box::new(move || updaters::block(broken)));
    start("joins", 3, Box::new(move || updaters::join(broken)));
    start("polls", 1, Box::new(move || updaters::poll(broken)));
    start("awaits", 1, Box::new(updaters::awaiting));
    start("updates-domain", 1, Box::new(move || updaters::update_domain(broken)));
    start("makes-domains", 1, Box::new(move || updaters::make_domains(broken)));
    WORLD.disturbers.store(1, Ordering::Release);
    start("disturbs", 1, Box::new(readers::disturb));
    threads
}

/// Waits for all threads; the names of those that do not end.
fn end(threads: &mut Vec<JoinHandle<()>>) -> Vec<String> {
    let begin = Instant::now();
    while !threads.is_empty() && begin.elapsed().as_secs() < END_SECONDS {
        // Who awaits sleeps until he is woken; this is the only time that it is not by a waker.
        threads.iter().for_each(|thread| thread.thread().unpark());
        std::thread::sleep(Duration::from_millis(5));
        threads.retain(|thread| !thread.is_finished());
    }
    threads.iter().map(|thread| thread.thread().name().unwrap_or("?").to_owned()).collect()
}

/// The thread that leaks, and how long after its begin it was reported, in milliseconds.
static LEAKING: AtomicI32 = AtomicI32::new(0);
static REPORTED_MS: AtomicU64 = AtomicU64::new(0);
static LEAK_BEGAN: Mutex<Option<Instant>> = Mutex::new(None);

/// A thread stays in its section until that is reported, or for far too long.
fn leak_a_reader() -> Leak {
    let leaks = || {
        // SAFETY: no precondition.
        let own = unsafe { libc::gettid() };
        let guard = read();
        let begin = Instant::now();
        *LEAK_BEGAN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(begin);
        REPORTED_MS.store(0, Ordering::SeqCst);
        LEAKING.store(own, Ordering::SeqCst);
        let limit = Duration::from_millis(10 * LEAK_MS_MAX);
        while LEAKING.load(Ordering::SeqCst) != 0 && begin.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        let reported_ms = (LEAKING.swap(0, Ordering::SeqCst) == 0)
            .then(|| REPORTED_MS.load(Ordering::SeqCst).max(begin.elapsed().as_millis() as u64));
        drop(guard);
        Leak::new(own, reported_ms, LEAK_MS_MAX)
    };
    // It may be called in a signal handler, so it does no more than this.
    stall::set_callback(Some(|stall| {
        let own = LEAKING.load(Ordering::SeqCst);
        if own != 0 && stall.thread == own && stall.name() == "leaks" {
            REPORTED_MS.store(stall.age_ms, Ordering::SeqCst);
            LEAKING.store(0, Ordering::SeqCst);
        }
    }));
    let thread = std::thread::Builder::new().name("leaks".into()).spawn(leaks);
    let leak = thread.expect("a thread").join().expect("the leaking thread ends");
    stall::set_callback(None);
    leak
}
