//! `worst`: the worst call, and whether it grows with the heap.
//!
//! Rows are `worst-CALL/MIB-mib`: the longest call in a heap of that many MiB, and
//! `worst-CALL-p9999/MIB-mib`: the call at the 99.99th percentile. CALL is `malloc`, `free` or
//! `realloc`. Figures are CPU time of the thread, so that other load does not count, with the 0.3
//! us that reading the clock takes. The heap has blocks of 500 to 2,000 bytes, and a course as in a
//! program that works with much, then with little:
//!
//! | step | timed |
//! |---|---|
//! | the heap is filled | |
//! | half of the blocks are freed, in random order | `free` |
//! | an eighth is allocated | `malloc` |
//! | of the first blocks a sixteenth is left | `free` |
//! | 300,000 blocks are replaced | `malloc`, `free` |
//! | 100,000 blocks get another size | `realloc` |
//!
//! Each contender has a process of its own for each heap. The blocks are not written to: heaps
//! above half of the memory that is available are left out.

use core::hint::black_box;
use core::time::Duration;

use hdrhistogram::Histogram;

use crate::contenders::allocators::{self, Allocator, Workload};
use crate::harness::{
    Case, Effort, Failure, Judge, Judgement, Measure, Options, Random, Report, Sampler, Table,
    available_bytes, out_of_memory,
};

const HEAPS_MIB: [usize; 4] = [64, 1024, 4096, 16_384];
const QUICK_HEAPS_MIB: [usize; 2] = [64, 512];
const SIZE_MIN: usize = 500;
const SIZE_MAX: usize = 2000;
const REPLACED: usize = 300_000;
const RESIZED: usize = 100_000;

/// What each sample lists, in this order.
const MEASURES: [Measure; 6] = [
    Measure("-malloc", "ns/op", "malloc, us", 1e3),
    Measure("-malloc-p9999", "ns/op", "malloc p99.99", 1e3),
    Measure("-free", "ns/op", "free, us", 1e3),
    Measure("-free-p9999", "ns/op", "free p99.99", 1e3),
    Measure("-realloc", "ns/op", "realloc, us", 1e3),
    Measure("-realloc-p9999", "ns/op", "realloc p99.99", 1e3),
];

/// The longest call, to that of the best peer.
const WORST_MAX: f64 = 1.0;
/// From the smallest heap to the largest: by how much the longest call may grow, and by which
/// factor the 99.99th percentile.
const GROWTH_US_MAX: f64 = 100.0;
const GROWTH_MAX: f64 = 1.5;

const EFFORT: [Effort; 2] = [
    Effort { rounds_max: 3, ..Effort::LONG[0] },
    Effort { rounds_min: 1, rounds_max: 1, ..Effort::LONG[1] },
];

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    effort: EFFORT,
    finish,
    ..Table::new("worst", "the longest call, in heaps of 64 MiB to 16 GiB", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let heaps: &[usize] = if options.quick { &QUICK_HEAPS_MIB } else { &HEAPS_MIB };
    let most_mib = available_bytes().map_or(usize::MAX, |bytes| bytes >> 21);
    heaps.iter().filter(|mib| **mib <= most_mib).map(|mib| case(*mib)).collect()
}

fn case(mib: usize) -> Case {
    let rest = format!("{mib}-mib");
    let rows = Measure::rows(&MEASURES, ("worst", &rest), &format!("worst/{rest}"), compare);
    let course = Course { bytes: mib << 20, replaced: REPLACED, resized: RESIZED };
    let contenders = allocators::contenders_of_malloc(course).into_iter().map(|contender| {
        let name = contender.mode.map_or(contender.family, |mode| mode.name);
        contender.in_fresh_child(name)
    });
    Case::new(rows, contenders.collect())
}

fn compare(row: &mut Judge<'_>, measure: &str) {
    let peers = allocators::UNSIZED;
    peers.iter().for_each(|peer| row.ratio("malloc", peer));
    let Some(best) = row.best(peers) else { return };
    let is_judged = !measure.ends_with("-p9999") && row.has_all_peers(peers);
    row.hold("malloc", best, Some(WORST_MAX).filter(|_| is_judged));
}

/// Judges how calls grow from the smallest heap to the largest.
fn finish(report: &mut Report) {
    for Measure(suffix, ..) in MEASURES {
        let part = format!("worst{suffix}/");
        let of_heaps = report.rows.iter().filter(|row| {
            row.contender == "malloc" && row.workload.starts_with(&part) && !row.is_mode
        });
        let medians: Vec<f64> = of_heaps.map(|row| row.summary.median).collect();
        let [first, .., last] = medians[..] else { continue };
        let workload = format!("worst{suffix}/growth");
        let bar = if suffix.ends_with("-p9999") {
            let growth = last / first;
            Judgement::new(&workload, "malloc", "smallest heap", growth, Some(GROWTH_MAX))
        } else {
            let growth_us = (last - first) / 1e3;
            Judgement::new(&workload, "malloc", "1 us", growth_us, Some(GROWTH_US_MAX))
        };
        report.bars.push(bar);
    }
}

#[derive(Clone, Copy, Debug)]
struct Course {
    bytes: usize,
    replaced: usize,
    resized: usize,
}

impl Workload for Course {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += 1;
            let mut heap = Heap::new(&allocator, self, seed);
            heap.run(self);
            let [malloc, free, realloc] = [&heap.malloc, &heap.free, &heap.realloc];
            let figures = |times: &Histogram<u64>| {
                [times.max() as f64, times.value_at_quantile(0.9999) as f64]
            };
            Ok([malloc, free, realloc].into_iter().flat_map(figures).collect())
        }))
    }
}

/// The live blocks, and how long calls took in ns.
struct Heap<'a, A: Allocator> {
    allocator: &'a A,
    blocks: Vec<*mut u8>,
    random: Random,
    malloc: Histogram<u64>,
    free: Histogram<u64>,
    realloc: Histogram<u64>,
}

impl<'a, A: Allocator> Heap<'a, A> {
    fn new(allocator: &'a A, course: Course, seed: u64) -> Heap<'a, A> {
        allocator.enter_thread();
        let count = course.bytes / SIZE_MIN.midpoint(SIZE_MAX);
        let [malloc, free, realloc] =
            core::array::from_fn(|_| Histogram::new(3).expect("three digits are supported"));
        let random = Random::new(seed);
        let mut heap =
            Heap { allocator, blocks: Vec::with_capacity(count), random, malloc, free, realloc };
        for _ in 0..count {
            let block = heap.allocate();
            heap.blocks.push(block);
        }
        heap
    }

    fn run(&mut self, course: Course) {
        let count = self.blocks.len();
        self.thin_to(count / 2);
        for _ in 0..count / 8 {
            let block = self.allocate_timed();
            self.blocks.push(block);
        }
        self.thin_to(count / 16);
        for _ in 0..course.replaced {
            let block = self.allocate_timed();
            let place = self.any();
            let old = core::mem::replace(&mut self.blocks[place], block);
            self.free_timed(old);
        }
        for _ in 0..course.resized {
            let (place, size) = (self.any(), self.size());
            let old = self.blocks[place];
            let begin = cpu_time();
            // SAFETY: live, and replaced by the result.
            let block = unsafe { self.allocator.realloc(old, size) };
            note(&mut self.realloc, begin);
            self.blocks[place] = checked(block);
        }
    }

    /// Frees random blocks until this many are left.
    fn thin_to(&mut self, count: usize) {
        while self.blocks.len() > count {
            let place = self.any();
            let block = self.blocks.swap_remove(place);
            self.free_timed(block);
        }
    }

    /// The place of a random block.
    fn any(&mut self) -> usize {
        self.random.below(self.blocks.len() as u32) as usize
    }

    fn size(&mut self) -> usize {
        SIZE_MIN + self.random.below((SIZE_MAX - SIZE_MIN + 1) as u32) as usize
    }

    fn allocate(&mut self) -> *mut u8 {
        let size = self.size();
        checked(self.allocator.alloc(black_box(size)))
    }

    fn allocate_timed(&mut self) -> *mut u8 {
        let size = self.size();
        let begin = cpu_time();
        let block = self.allocator.alloc(black_box(size));
        note(&mut self.malloc, begin);
        checked(block)
    }

    fn free_timed(&mut self, block: *mut u8) {
        let begin = cpu_time();
        // SAFETY: live, and given up by the caller; the contenders find the size.
        unsafe { self.allocator.free(block, 0) };
        note(&mut self.free, begin);
    }
}

impl<A: Allocator> Drop for Heap<'_, A> {
    fn drop(&mut self) {
        for block in &self.blocks {
            // SAFETY: live, and given up here; the contenders find the size.
            unsafe { self.allocator.free(*block, 0) };
        }
    }
}

fn checked(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        out_of_memory();
    }
    block
}

fn note(times: &mut Histogram<u64>, begin: Duration) {
    let nanoseconds = cpu_time().saturating_sub(begin).as_nanos() as u64;
    times.record(nanoseconds).expect("the histogram grows");
}

/// CPU time of the thread so far.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_worst.rs"]
mod tests;
