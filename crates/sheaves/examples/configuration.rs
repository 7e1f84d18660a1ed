//! A configuration that is read millions of times and replaced live.
//!
//! Workers read two related values without a lock and without an atomic instruction; another thread
//! replaces both at once. Run it:
//!
//! ```sh
//! cargo run --release -p sheaves --example configuration
//! ```

use core::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use sheaves::rcu::{self, RcuCell};

/// The configuration; `limit` is always twice the `weight`.
#[derive(Debug)]
struct Configuration {
    version: u64,
    weight: u64,
    limit: u64,
}

/// Reads of each worker, at least, and number of replacements.
const READS: u64 = 5_000_000;
const REPLACEMENTS: u64 = 20_000;
const WORKERS: u64 = 2;

fn make(version: u64) -> Configuration {
    Configuration { version, weight: version * 3, limit: version * 6 }
}

/// The observations of a worker.
struct Seen {
    reads: u64,
    versions: u64,
    mixed: u64,
}

/// Reads until the minimum is reached and the last replacement is done.
fn work(configuration: &RcuCell<Configuration>, is_done: &AtomicBool) -> Seen {
    let (mut seen, mut last) = (Seen { reads: 0, versions: 1, mixed: 0 }, 0);
    while seen.reads < READS || !is_done.load(Ordering::Relaxed) {
        seen.reads += 1;
        let guard = rcu::read();
        let now = configuration.load(&guard);
        // The two values must match, and the version must never be older than before.
        seen.mixed += u64::from(now.limit != 2 * now.weight || now.version < last);
        seen.versions += u64::from(now.version != last);
        last = now.version;
    }
    seen
}

fn main() {
    let configuration = RcuCell::new(make(0));
    let is_done = AtomicBool::new(false);
    let begin = Instant::now();
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|_| scope.spawn(|| work(&configuration, &is_done))).collect();
        for version in 1..=REPLACEMENTS {
            // Returns the old one after a grace period.
            let old = configuration.store(make(version));
            let old = old.synchronize().expect("the updater is not a reader");
            assert_eq!(old.version, version - 1);
        }
        is_done.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a worker ends")).collect()
    });
    let (seconds, reads) = (begin.elapsed().as_secs_f64(), seen.iter().map(|seen| seen.reads));
    let reads: u64 = reads.sum();
    println!(
        "{reads} reads by {WORKERS} threads during {REPLACEMENTS} replacements, {seconds:.2} s"
    );
    for (number, seen) in seen.iter().enumerate() {
        println!("thread {number} has seen {} versions", seen.versions);
        assert_eq!(seen.mixed, 0, "a reader has seen two configurations mixed, or an older one");
        assert!(seen.versions > 1, "nothing was replaced while it was read");
    }
    assert_eq!(configuration.load(&rcu::read()).version, REPLACEMENTS);
    println!("every read was of one configuration, and none went back");
}
