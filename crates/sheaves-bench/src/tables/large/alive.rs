//! Rows of `large` with many blocks that are live at once, of which random ones are replaced.
//!
//! Rows are `alive-Nt/WHICH-HOW`: N is 1 or 2 threads with blocks of their own, WHICH their sizes
//! in MiB, HOW what is written of each block.
//!
//! | WHICH | live blocks of each thread |
//! |---|---|
//! | `5-25` | 20 of 5 to 25 MiB |
//! | `1-8` | 100 of 1 to 8 MiB |
//!
//! | HOW | what is written |
//! |---|---|
//! | `untouched` | nothing |
//! | `touched` | the first byte of each page |
//! | `whole` | every byte |
//!
//! A figure is the time of one replacement, `large-faults` how many minor page faults it brings,
//! and `large-resident` what the process has in memory two idle seconds after it has freed all
//! blocks, above what it had before the first. Each contender has a process of its own, which has
//! one thread in the rows `alive-1t`: no thread of the library is there to give memory back.

use alloc::sync::Arc;
use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use super::pages::write_pages;
use crate::contenders::allocators::{self, Allocator, Workload};
use crate::harness::{
    Case, Effort, Failure, Judge, Measure, Random, Sampler, SpinBarrier, Workers, out_of_memory,
    resident_bytes,
};

const MIB: usize = 1 << 20;

/// What each sample lists, in this order.
const MEASURES: [Measure; 3] = [
    Measure("", "ns/op", "us", 1e3),
    Measure("-faults", "faults/op", "faults", 1.0),
    Measure("-resident", "bytes", "resident, MiB", MIB as f64),
];

/// To the best peer, where blocks are written to.
const TIME_MAX: f64 = 1.0;
/// What may be resident when all is idle: with one thread the documented limit of what the library
/// keeps without a thread of its own, and what little else it has; then with two threads.
const RESIDENT_MIB_MAX: [f64; 2] = [65.0, 32.0];

/// Time of the replacements of a sample.
const TIME: Duration = Duration::from_millis(400);
const IDLE: Duration = Duration::from_secs(2);
const EFFORT: [Effort; 2] = [
    Effort { rounds_max: 3, ..Effort::LONG[0] },
    Effort { rounds_min: 1, rounds_max: 1, ..Effort::LONG[1] },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Nothing,
    Pages,
    All,
}

#[derive(Clone, Copy, Debug)]
struct Alive {
    threads: usize,
    /// Blocks of each thread.
    live: usize,
    sizes_mib: [usize; 2],
    written: Written,
    time: Duration,
    idle: Duration,
}

/// The cases; for a first look those in which pages are touched.
pub(super) fn cases(is_quick: bool) -> Vec<Case> {
    let which = [("5-25", 20, [5, 25]), ("1-8", 100, [1, 8])];
    let how =
        [("untouched", Written::Nothing), ("touched", Written::Pages), ("whole", Written::All)];
    let mut cases = Vec::new();
    for threads in [1, 2] {
        for (sizes, live, sizes_mib) in which {
            for (part, written) in how {
                if is_quick && written != Written::Pages {
                    continue;
                }
                let rest = format!("alive-{threads}t/{sizes}-{part}");
                let alive = Alive { threads, live, sizes_mib, written, time: TIME, idle: IDLE };
                cases.push(case(&rest, alive, EFFORT[usize::from(is_quick)]));
            }
        }
    }
    cases
}

fn case(rest: &str, alive: Alive, effort: Effort) -> Case {
    let compare = move |row: &mut Judge<'_>, measure: &str| compare(row, measure, alive);
    let rows = Measure::rows(&MEASURES, ("large", rest), &format!("large/{rest}"), compare);
    let contenders = allocators::contenders_of_malloc(alive).into_iter().map(|contender| {
        let name = contender.mode.map_or(contender.family, |mode| mode.name);
        contender.in_fresh_child(name)
    });
    Case { effort: Some(effort), ..Case::new(rows, contenders.collect()) }
}

fn compare(row: &mut Judge<'_>, measure: &str, alive: Alive) {
    let peers = allocators::UNSIZED;
    peers.iter().for_each(|peer| row.ratio("malloc", peer));
    match measure {
        "" => {
            let Some(best) = row.best(peers) else { return };
            let is_judged = alive.written != Written::Nothing && row.has_all_peers(peers);
            row.hold("malloc", best, Some(TIME_MAX).filter(|_| is_judged));
        }
        "-resident" => {
            let resident = row.median("malloc").map(|bytes| bytes / MIB as f64);
            row.limit("malloc", "1 MiB", resident, RESIDENT_MIB_MAX[alive.threads - 1]);
        }
        _ => {}
    }
}

/// What replacements took of a thread's time, and how many they were.
type Spent = (Duration, usize);

impl Workload for Alive {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let allocator = Arc::new(allocator);
        // With one thread there is no other, not even an idle one.
        let workers = (self.threads > 1).then(|| Workers::of(self.threads)).transpose()?;
        let before = resident_bytes();
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += self.threads as u64;
            let barrier = SpinBarrier::new(self.threads);
            let allocator = Arc::clone(&allocator);
            let work = move |worker| {
                let mut set = Set::new(Arc::clone(&allocator), self, seed + worker as u64);
                barrier.wait();
                let faults = minor_faults();
                let spent = set.replace_for(self.time);
                // The frees of one thread are no part of the time of another.
                barrier.wait();
                (spent, minor_faults() - faults)
            };
            let measured = match &workers {
                None => vec![work(0)],
                Some(workers) => workers.run(work),
            };
            std::thread::sleep(self.idle);
            let resident = resident_bytes().saturating_sub(before) as f64;
            // The faults are those of the process, which each worker has counted.
            let faults = measured.iter().map(|(_, faults)| *faults).max().unwrap_or(0);
            let (time, faults) = per_replacement(measured.iter().map(|(spent, _)| *spent), faults);
            Ok(vec![time, faults, resident])
        }))
    }
}

/// Nanoseconds and faults of one replacement, in the mean.
fn per_replacement(spent: impl Iterator<Item = Spent>, faults: u64) -> (f64, f64) {
    let sum = |(time, count): Spent, one: Spent| (time + one.0, count + one.1);
    let (time, count) = spent.fold((Duration::ZERO, 0), sum);
    (time.as_nanos() as f64 / count as f64, faults as f64 / count as f64)
}

/// Minor page faults of all threads of the process so far.
fn minor_faults() -> u64 {
    // SAFETY: the struct is made of numbers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the call fills in `usage`.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_minflt.cast_unsigned()
}

/// The live blocks of a thread.
struct Set<A: Allocator> {
    allocator: Arc<A>,
    alive: Alive,
    blocks: Vec<*mut u8>,
    random: Random,
}

impl<A: Allocator> Set<A> {
    /// The blocks, each of which was replaced once in the mean.
    fn new(allocator: Arc<A>, alive: Alive, seed: u64) -> Set<A> {
        allocator.enter_thread();
        let blocks = Vec::with_capacity(alive.live);
        let mut set = Set { allocator, alive, blocks, random: Random::new(seed) };
        for _ in 0..alive.live {
            let block = set.allocate();
            set.blocks.push(block);
        }
        set.replace(alive.live);
        set
    }

    fn replace_for(&mut self, time: Duration) -> Spent {
        const BATCH: usize = 4;
        let (start, mut count) = (Instant::now(), 0);
        loop {
            self.replace(BATCH);
            count += BATCH;
            let elapsed = start.elapsed();
            if elapsed >= time {
                return (elapsed, count);
            }
        }
    }

    #[inline(never)]
    fn replace(&mut self, count: usize) {
        for _ in 0..count {
            let place = self.random.below(self.alive.live as u32) as usize;
            // SAFETY: live, and replaced at once; the contenders find the size.
            unsafe { self.allocator.free(self.blocks[place], 0) };
            self.blocks[place] = self.allocate();
        }
    }

    fn allocate(&mut self) -> *mut u8 {
        let bytes = size(self.alive.sizes_mib, &mut self.random);
        let block = self.allocator.alloc(black_box(bytes));
        if block.is_null() {
            out_of_memory();
        }
        match self.alive.written {
            Written::Nothing => {}
            Written::Pages => write_pages(block, 0..bytes),
            // SAFETY: the block has this many bytes.
            Written::All => unsafe { block.write_bytes(14, bytes) },
        }
        black_box(block)
    }
}

/// A size between these, in bytes; each is as likely as any other.
fn size([low, high]: [usize; 2], random: &mut Random) -> usize {
    low * MIB + random.below(((high - low) * MIB) as u32 + 1) as usize
}

impl<A: Allocator> Drop for Set<A> {
    fn drop(&mut self) {
        for block in &self.blocks {
            // SAFETY: live, and given up here; the contenders find the size.
            unsafe { self.allocator.free(*block, 0) };
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_large_alive.rs"]
mod tests;
