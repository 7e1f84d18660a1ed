//! `slabtest`: the six parts of the kernel's slab_test module, the test that the 2011 result was
//! published with, moved to user space step by step.
//!
//! | part | rows | what |
//! |---|---|---|
//! | 1 | `1-alloc`, `1-free` | allocate 10,000, writing a byte each; then free them in that order |
//! | 2 | `2` | allocate and free at once, 10,000 times |
//! | 3 | `3-alloc`, `3-free` | part 1 on all CPUs at once |
//! | 4 | `4` | part 2 on all CPUs at once |
//! | 5 | `5-alloc`, `5-free` | all CPUs but the first allocate; the first frees everything |
//! | 6 | `6-alloc`, `6-free` | the first allocates for the others, which free as objects come |
//!
//! The original prints one average for a concurrent part, and divides by 10,000 and by the number
//! of CPUs whatever each CPU really did. Rows that end in `-printed` are that figure (of phase one,
//! and `-printed2` of phase two); the others divide by the operations that were done. Times are
//! nanoseconds, not cycles. Parts 1 and 2 run several times in a sample, to make it long enough.
//!
//! Rows are `slabtest/PART/SIZE`, the contenders are the [`allocators`]. `cache` is held against
//! `locked`, size by size and in the mean over the sizes that were published.

pub(crate) mod before_after;

use alloc::sync::Arc;
use core::hint::black_box;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::time::Instant;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::{
    Backoff, Case, Failure, Judgement, Options, Report, Row, Sampler, Shown, SpinBarrier, Table,
    Workers, allowed_cpus, geometric_mean, halves, mean, out_of_memory, per_operation,
};

const OBJECTS: usize = 10_000;
/// Largest size of the concurrent parts, in bytes.
const CONCURRENT_SIZE_MAX: usize = 4096;
/// Largest size in the published mean, in bytes.
const PUBLISHED_SIZE_MAX: usize = 8192;
/// Times that parts 1 and 2 are repeated in a sample.
const CYCLES: usize = 5;

/// Rows in which `cache` is held against `locked`, and how much faster it must be.
const SPEEDUPS: [(&str, f64); 2] = [("slabtest/2", 1.7), ("slabtest/1-free", 1.0)];

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    sizes: Some(SIZES),
    finish,
    remarks: |report| {
        let sentences = before_after::sentences(report);
        if sentences.is_empty() { sentences } else { format!("\n{sentences}") }
    },
    ..Table::new("slabtest", "the six parts of the kernel's slab_test, step by step: 1 to 6", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let of = |part: Part| {
        let sizes = options.sizes.iter().copied();
        sizes.filter(move |size| part.has(*size)).map(move |size| case(part, size))
    };
    Part::ALL.into_iter().flat_map(of).collect()
}

/// The result of 2011 is a geometric mean over the sizes.
fn finish(report: &mut Report) {
    for (heading, speedup) in SPEEDUPS {
        let published = |bar: &&Judgement| {
            let row = report.row(&bar.workload, &bar.contender).map(|row| &row.shown);
            let is_published =
                |row: &Shown| row.heading == heading && row.size <= Some(PUBLISHED_SIZE_MAX);
            bar.versus == "locked" && row.is_some_and(is_published)
        };
        let ratios = report.bars.iter().filter(published).map(|bar| bar.ratio);
        let Some(mean) = geometric_mean(&ratios.collect::<Vec<_>>()) else { continue };
        let (name, at_most) = (format!("{heading}/mean"), Some(1.0 / speedup));
        report.bars.push(Judgement::new(&name, "cache", "locked", mean, at_most));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    One,
    Two,
    Three,
    Four,
    Five,
    Six,
}

impl Part {
    const ALL: [Part; 6] = [Part::One, Part::Two, Part::Three, Part::Four, Part::Five, Part::Six];

    /// Its rows, in the order in which its samples list them.
    fn rows(self) -> &'static [&'static str] {
        match self {
            Part::One => &["1-alloc", "1-free"],
            Part::Two => &["2"],
            Part::Three => &["3-alloc", "3-free"],
            Part::Four => &["4"],
            Part::Five => &["5-alloc", "5-free", "5-printed", "5-printed2"],
            Part::Six => &["6-alloc", "6-free", "6-printed"],
        }
    }

    /// Whether the original has this size.
    fn has(self, size: usize) -> bool {
        matches!(self, Part::One | Part::Two) || size <= CONCURRENT_SIZE_MAX
    }
}

fn case(part: Part, size: usize) -> Case {
    let row = |name: &&str| {
        let heading = format!("slabtest/{name}");
        let speedup = SPEEDUPS.iter().find(|(known, _)| *known == heading);
        let cache_to_locked = speedup.map(|(_, times)| 1.0 / times);
        (Row::sized(&heading, size), Bars { cache_to_locked, ..Bars::default() })
    };
    let rows = part.rows().iter().map(row).collect();
    allocators::case(rows, Some(size), Test { part, size })
}

#[derive(Clone, Copy)]
struct Test {
    part: Part,
    size: usize,
}

impl Workload for Test {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let size = black_box(self.size);
        let pairs = |times: &Times| vec![mean(&times.phase_1) / OBJECTS as f64];
        match self.part {
            Part::One => Ok(part_1(allocator, size)),
            Part::Two => Ok(part_2(allocator, size)),
            Part::Three => {
                concurrent(size, allocator, Course::allocate, Course::free_own, split_evenly)
            }
            Part::Four => concurrent(size, allocator, Course::pairs, |_, _| {}, pairs),
            Part::Five => {
                concurrent(size, allocator, Course::allocate_remote, Course::free_all, remote_free)
            }
            Part::Six => {
                concurrent(size, allocator, Course::one_allocates, Course::free_rest, one_for_all)
            }
        }
    }
}

fn part_1<A: Allocator>(allocator: A, size: usize) -> Sampler {
    let mut objects = table();
    Box::new(move || {
        allocator.enter_thread();
        let allocate = |objects: &mut Box<_>| fill(&allocator, size, objects);
        let free = |objects: &mut Box<_>| empty(&allocator, size, objects);
        Ok(halves((CYCLES, OBJECTS), &mut objects, || {}, allocate, free).into())
    })
}

fn part_2<A: Allocator>(allocator: A, size: usize) -> Sampler {
    Box::new(move || {
        allocator.enter_thread();
        untouched_pairs(&allocator, size, OBJECTS / 10);
        let start = Instant::now();
        untouched_pairs(&allocator, size, OBJECTS * CYCLES);
        Ok(vec![per_operation(start.elapsed(), OBJECTS * CYCLES)])
    })
}

/// An array of as many empty places as the test has objects.
fn table() -> Box<[AtomicPtr<u8>]> {
    (0..OBJECTS).map(|_| AtomicPtr::default()).collect()
}

#[inline(never)]
fn fill<A: Allocator>(allocator: &A, size: usize, objects: &[AtomicPtr<u8>]) {
    for place in objects {
        let object = allocator.alloc(size);
        touch(object);
        // Relaxed: a thread that reads it has passed a barrier since.
        place.store(object, Ordering::Relaxed);
    }
}

#[inline(never)]
fn empty<A: Allocator>(allocator: &A, size: usize, objects: &[AtomicPtr<u8>]) {
    for place in objects {
        // Relaxed: as in `fill`.
        let object = place.load(Ordering::Relaxed);
        if !object.is_null() {
            touch(object);
            // SAFETY: `fill` allocated them all, and each place is visited once.
            unsafe { allocator.free(object, size) };
        }
    }
}

/// The original's part 2 does not write to the object.
#[inline(never)]
fn untouched_pairs<A: Allocator>(allocator: &A, size: usize, count: usize) {
    for _ in 0..count {
        let object = allocator.alloc(size);
        if object.is_null() {
            out_of_memory();
        }
        black_box(object);
        // SAFETY: allocated above and freed once.
        unsafe { allocator.free(object, size) };
    }
}

/// What the threads of a concurrent part share.
struct Course<A> {
    allocator: A,
    size: usize,
    objects: Vec<Box<[AtomicPtr<u8>]>>,
}

/// What each CPU needed for both phases, in nanoseconds.
struct Times {
    phase_1: Vec<f64>,
    phase_2: Vec<f64>,
}

type Phase<A> = fn(&Course<A>, usize);

/// Runs two phases on all CPUs at once, with a barrier before, between and behind them.
fn concurrent<A: Allocator>(
    size: usize,
    allocator: A,
    phase_1: Phase<A>,
    phase_2: Phase<A>,
    evaluate: fn(&Times) -> Vec<f64>,
) -> Result<Sampler, Failure> {
    // Parts 5 and 6 need a second thread even on a machine with one CPU.
    let cpus = allowed_cpus().len().max(2);
    let workers = Workers::of(cpus)?;
    let objects = (0..cpus).map(|_| table()).collect();
    let course = Arc::new(Course { allocator, size, objects });
    Ok(Box::new(move || {
        let barrier = SpinBarrier::new(cpus);
        let course = Arc::clone(&course);
        let times = workers.run(move |cpu| {
            course.allocator.enter_thread();
            let timed = |phase: Phase<A>| {
                barrier.wait();
                let start = Instant::now();
                phase(&course, cpu);
                start.elapsed().as_nanos() as f64
            };
            let times = (timed(phase_1), timed(phase_2));
            barrier.wait();
            times
        });
        let (phase_1, phase_2) = times.into_iter().unzip();
        Ok(evaluate(&Times { phase_1, phase_2 }))
    }))
}

impl<A: Allocator> Course<A> {
    fn allocate(&self, cpu: usize) {
        fill(&self.allocator, self.size, &self.objects[cpu]);
    }

    fn free_own(&self, cpu: usize) {
        empty(&self.allocator, self.size, &self.objects[cpu]);
    }

    fn pairs(&self, _cpu: usize) {
        for _ in 0..OBJECTS {
            let object = self.allocator.alloc(self.size);
            touch(object);
            // SAFETY: allocated above and freed once.
            unsafe { self.allocator.free(object, self.size) };
        }
    }

    fn allocate_remote(&self, cpu: usize) {
        if cpu > 0 {
            self.allocate(cpu);
        }
    }

    fn free_all(&self, cpu: usize) {
        if cpu == 0 {
            // The first CPU's own table is empty, and is looked through as in the original.
            self.objects.iter().for_each(|table| empty(&self.allocator, self.size, table));
        }
    }

    /// The first CPU deals objects out to the others, which wait for each and free it. As in the
    /// original, each of the others stops after its share of one table.
    fn one_allocates(&self, cpu: usize) {
        if cpu > 0 {
            let share = OBJECTS / self.objects.len();
            self.objects[cpu][..share].iter().for_each(|place| self.free_when_there(place));
            return;
        }
        for index in 0..OBJECTS {
            for table in &self.objects[1..] {
                let object = self.allocator.alloc(self.size);
                touch(object);
                // Release: partner is the acquire load in `free_when_there`.
                table[index].store(object, Ordering::Release);
            }
        }
    }

    fn free_when_there(&self, place: &AtomicPtr<u8>) {
        let mut backoff = Backoff::new();
        loop {
            // Acquire: partner is the release store in `one_allocates`.
            let object = place.load(Ordering::Acquire);
            if !object.is_null() {
                touch(object);
                // SAFETY: the first CPU allocated it for this one alone.
                unsafe { self.allocator.free(object, self.size) };
                // Relaxed: the first CPU writes here again only behind the next barrier.
                place.store(core::ptr::null_mut(), Ordering::Relaxed);
                return;
            }
            backoff.pause();
        }
    }

    /// The original leaks what no CPU freed; here each CPU frees the rest of its table.
    fn free_rest(&self, cpu: usize) {
        for place in &self.objects[cpu] {
            // Relaxed: the barrier between the phases orders this behind all stores.
            let object = place.swap(core::ptr::null_mut(), Ordering::Relaxed);
            if !object.is_null() {
                // SAFETY: allocated by the first CPU, left over, and taken out of the table here.
                unsafe { self.allocator.free(object, self.size) };
            }
        }
    }
}

/// Part 3: every CPU does the same, so what is printed and what is right agree.
fn split_evenly(times: &Times) -> Vec<f64> {
    vec![mean(&times.phase_1) / OBJECTS as f64, mean(&times.phase_2) / OBJECTS as f64]
}

/// Part 5: the first CPU does nothing in phase one and everything in phase two.
fn remote_free(times: &Times) -> Vec<f64> {
    let objects = OBJECTS as f64;
    let others = (times.phase_1.len() - 1) as f64;
    vec![
        mean(&times.phase_1[1..]) / objects,
        times.phase_2[0] / (objects * others),
        mean(&times.phase_1) / objects,
        mean(&times.phase_2) / objects,
    ]
}

/// Part 6: the first CPU allocates for each other one, and those free a share of it.
fn one_for_all(times: &Times) -> Vec<f64> {
    let objects = OBJECTS as f64;
    let cpus = times.phase_1.len();
    vec![
        times.phase_1[0] / (objects * (cpus - 1) as f64),
        mean(&times.phase_1[1..]) / (OBJECTS / cpus) as f64,
        mean(&times.phase_1) / objects,
    ]
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_slabtest.rs"]
mod tests;
