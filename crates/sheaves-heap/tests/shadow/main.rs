//! Random operations on the heap, checked against a shadow of its state.
//!
//! The shadow is an ordered map of the live blocks, of which no two may overlap. The contents of a
//! block depend on its address and a seed, and are checked when the block is freed or resized.
//! Alignment and usable size are checked, and `calloc` has to return zeros. At the end everything
//! is freed: then the caches can be destroyed, and the heap's figures are the initial ones.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SHEAVES_OPERATIONS` | operations in all configurations together | 300,000 |
//! | `SHEAVES_SEED` | seed of the generator | the time |
//!
//! ```sh
//! SHEAVES_OPERATIONS=10000000 cargo test --release -p sheaves-heap --test shadow
//! ```
//!
//! Half of the operations run in the default configuration; the others are shared by the remaining
//! ones. Each configuration is a process of its own: this program with another environment.
//! `broken` proves that the test can fail.

mod block;
mod broken;
mod heap;
mod op;
mod worker;

use core::time::Duration;
use std::env;
use std::process::Command;
use std::sync::{LazyLock, mpsc};
use std::time::{Instant, SystemTime};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::block::{Block, Shadow};
use crate::heap::{Heap, Sheaves};
use crate::op::{Random, any_op, mix};
use crate::worker::Worker;

const THREADS: usize = 4;
const OPERATIONS_DEFAULT: u64 = 300_000;

/// Environments to run in. The first is the default.
const CONFIGURATIONS: [&[(&str, &str)]; 9] = [
    &[],
    &[("SHEAVES_ENGINE", "rseq")],
    &[("SHEAVES_ENGINE", "rseq-cpu")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "2")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    &[("SHEAVES_HARDEN", "2")],
    &[("SHEAVES_DEBUG", "1")],
    &[("SHEAVES_PROF", "4096")],
    &[("SHEAVES_PROF", "4096"), ("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
];

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn random_operations_in_every_configuration() {
    let operations = number("SHEAVES_OPERATIONS").unwrap_or(OPERATIONS_DEFAULT);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("SHEAVES_SEED").unwrap_or(now.as_nanos() as u64);
    println!("SHEAVES_SEED={seed} SHEAVES_OPERATIONS={operations}");
    for (index, variables) in CONFIGURATIONS.iter().enumerate() {
        let share = if index == 0 { 2 } else { 2 * (CONFIGURATIONS.len() as u64 - 1) };
        let begun = Instant::now();
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", "one_configuration", "--ignored", "--nocapture"])
            .env("SHEAVES_OPERATIONS", operations.div_ceil(share).to_string())
            .env("SHEAVES_SEED", seed.to_string())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{variables:?} with seed {seed}:\n{text}\n{errors}");
        assert!(text.contains("1 passed"), "nothing ran: {text}");
        println!("{variables:?}: {share}th part in {:.1?}", begun.elapsed());
    }
}

/// Started by [`random_operations_in_every_configuration`], once for each configuration.
#[test]
#[ignore = "needs a process of its own, which the test above starts"]
fn one_configuration() {
    let operations = number("SHEAVES_OPERATIONS").unwrap_or(OPERATIONS_DEFAULT);
    let seed = number("SHEAVES_SEED").unwrap_or(1);
    let used_before = sheaves_heap::report::totals().used_bytes;
    let (heap, shadow) = (Sheaves::new(), Shadow::default());
    run_threads(&heap, &shadow, seed, operations.div_ceil(THREADS as u64));
    assert_eq!(shadow.count(), 0);
    heap.destroy().unwrap();
    let totals = sheaves_heap::report::totals();
    assert_eq!(totals.used_bytes, used_before, "{totals:?}");
    sheaves_heap::trim(0);
    let totals = sheaves_heap::report::totals();
    assert_eq!((totals.used_bytes, totals.dirty_bytes), (used_before, 0), "{totals:?}");
}

fn run_threads(heap: &Sheaves, shadow: &Shadow, seed: u64, operations: u64) {
    let (senders, inboxes): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<Block>()).unzip();
    let workers = inboxes.into_iter().enumerate().map(|(thread, inbox)| {
        let mut others = senders.clone();
        others.remove(thread);
        let mut worker = Worker::new(heap, shadow, mix(seed ^ thread as u64));
        worker.connect(inbox, others);
        (thread, worker)
    });
    let workers: Vec<_> = workers.collect();
    drop(senders);
    std::thread::scope(|scope| {
        for (thread, mut worker) in workers {
            scope.spawn(move || {
                let mut random = Random::new(mix(seed).wrapping_add(thread as u64));
                for count in 0..operations {
                    let op = random.op();
                    if let Err(wrong) = worker.apply(op) {
                        panic!("thread {thread}, operation {count}, {op:?}: {wrong}");
                    }
                }
                if let Err(wrong) = worker.finish() {
                    panic!("thread {thread}, at the end: {wrong}");
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        max_shrink_time: Duration::from_secs(60).as_millis() as u32,
        ..ProptestConfig::default()
    })]

    /// The same operations in one thread, and in sequences that can shrink.
    #[test]
    fn short_sequences_are_right(ops in vec(any_op(), 1..300)) {
        // Made once: a failing sequence leaves objects out, and such caches cannot be destroyed.
        static HEAP: LazyLock<Sheaves> = LazyLock::new(Sheaves::new);
        let (shadow, out_before) = (Shadow::default(), HEAP.objects_out());
        let mut worker = Worker::new(&*HEAP, &shadow, 1);
        for op in ops {
            prop_assert_eq!(worker.apply(op), Ok(()));
        }
        prop_assert_eq!(worker.finish(), Ok(()));
        prop_assert_eq!(shadow.count(), 0);
        prop_assert_eq!(HEAP.objects_out(), out_before);
    }
}
