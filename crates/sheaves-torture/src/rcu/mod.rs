//! Torture of grace periods: of the default domain, and of a domain of its own.
//!
//! - Readers: sections of random length, nested, in signal handlers at any instruction, in threads
//!   that are moved between CPUs, and in threads that live for one section. Sections of the domain
//!   also end on other threads.
//! - Updaters: each has a pipeline of structures of ten generations. One blocks (`synchronize`,
//!   expedited, under expedite guards, on cookies), one polls and one awaits, with thirty items in
//!   progress; one waits for the domain, or for callbacks of it. Others only wait, and join in the
//!   middle of a grace period.
//! - Must not happen: a reader sees a structure that is older than readers may see; a thread waits
//!   for ever, or a cookie does not pass, or a future is not woken; a kind of update never
//!   completes; a reader that stays is not reported.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use sheaves_rcu::{Srcu, read, stall, statistics};

use crate::crew::Crew;

mod broken;
mod false_membarrier;
mod readers;
mod report;
mod updaters;
mod world;

pub use broken::Broken;
pub use report::{Leak, Report};
use world::WORLD;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Duration of the run.
    pub duration: Duration,
    /// An error to make, which must be detected.
    pub broken: Option<Broken>,
    /// A reader stays in its section until it is reported.
    pub leak: bool,
}

/// A reader that stays must be reported within this time. It is due after one second, but a machine
/// that runs much else lets the threads that find it wait.
const LEAK_MS_MAX: u64 = 10_000;

static ALONE: Mutex<()> = Mutex::new(());

/// Runs everything. One run at a time in a process; other calls wait.
///
/// # Errors
/// One line, if the run cannot begin.
pub fn run(options: &Options) -> Result<Report, String> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if options.broken == Some(Broken::Membarrier) {
        false_membarrier::install().map_err(|error| format!("no filter can be set: {error}"))?;
    }
    if WORLD.domain.get().is_none() {
        let domain = Srcu::new().map_err(|error| format!("there is no domain: {error}"))?;
        let _ = WORLD.domain.set(domain);
    }
    WORLD.reset();
    WORLD.signals.reset(readers::handle);
    let before = statistics();
    let crew = start(options.broken);
    let mut leak = None;
    if options.leak {
        leak = Some(leak_a_reader());
    }
    // The first error proves the broken variant; there is no need to wait for more.
    let seconds = WORLD.rounds.go_on(options.duration, || WORLD.errors() != 0);
    let stuck = crew.end();
    Ok(Report::new(seconds, before, leak, &stuck))
}

/// Starts the threads of each kind.
fn start(broken: Option<Broken>) -> Crew {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let readers = processors.max(2);
    let makers = processors.clamp(2, 8);
    let mut crew = Crew::new();
    let (sender, receiver) = std::sync::mpsc::sync_channel(64);
    let receiver = Mutex::new(Some(receiver));
    crew.start("ends-domain", 1, move || {
        let receiver = receiver.lock().ok().and_then(|mut receiver| receiver.take());
        receiver.iter().for_each(readers::end_domain);
    });
    crew.start("reads-and-duels", 1, readers::read_and_duel);
    crew.start("reads", readers - 1, readers::read_on);
    crew.start("reads-domain", readers, move || readers::read_domain(&sender));
    crew.start("makes-threads", makers, move || readers::make_threads(makers as u64));
    crew.start("blocks", 1, move || updaters::block(broken));
    crew.start("joins", 3, move || updaters::join(broken));
    crew.start("polls", 1, updaters::poll);
    crew.start("awaits", 1, updaters::awaiting);
    crew.start("updates-domain", 1, updaters::update_domain);
    crew.start("makes-domains", 1, updaters::make_domains);
    crew.start("disturbs", 1, || WORLD.signals.disturb(&WORLD.rounds));
    crew
}

/// The thread that leaks, and how many milliseconds after its begin it was reported.
static LEAKING: AtomicI32 = AtomicI32::new(0);
static REPORTED_MS: AtomicU64 = AtomicU64::new(0);

/// Starts a thread that stays in its section until that is reported, or for far too long.
fn leak_a_reader() -> Leak {
    let leaks = || {
        // SAFETY: no precondition.
        let own = unsafe { libc::gettid() };
        let guard = read();
        let begin = Instant::now();
        REPORTED_MS.store(0, Ordering::SeqCst);
        LEAKING.store(own, Ordering::SeqCst);
        let limit = Duration::from_millis(LEAK_MS_MAX);
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
