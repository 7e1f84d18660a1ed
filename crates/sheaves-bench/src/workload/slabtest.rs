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

use alloc::sync::Arc;
use core::hint::black_box;
use core::sync::atomic::{AtomicPtr, Ordering};
use core::time::Duration;
use std::time::Instant;

use super::crew::{Crew, Gate, Wait, allowed_cpus};
use super::{Job, OBJECTS, Table, name, per_operation, touch};
use crate::contender::Contender;
use crate::failure::{Failure, out_of_memory};
use crate::measure::Sampler;

/// Largest size of the concurrent parts, in bytes.
const CONCURRENT_SIZE_MAX: usize = 4096;
/// Times that parts 1 and 2 are repeated in a sample.
const CYCLES: usize = 5;

/// The six parts for each size that the original has.
pub(crate) fn jobs(sizes: &[usize]) -> Vec<Job> {
    let cpus = allowed_cpus().len();
    let mut jobs = Vec::new();
    for part in 1..=6 {
        let concurrent = part > 2;
        for size in sizes.iter().filter(|size| !concurrent || **size <= CONCURRENT_SIZE_MAX) {
            // Parts 5 and 6 need a second thread even on a machine with one CPU.
            let threads = if concurrent { cpus.max(2) } else { 1 };
            jobs.push(Job::new(Table::Slabtest, part.to_string(), *size, threads));
        }
    }
    jobs
}

/// The rows of a part, in the order in which its samples list them.
pub(crate) fn rows(job: &Job) -> Vec<String> {
    let endings: &[&str] = match job.variant.as_str() {
        "1" | "3" => &["-alloc", "-free"],
        "5" => &["-alloc", "-free", "-printed", "-printed2"],
        "6" => &["-alloc", "-free", "-printed"],
        _ => &[""],
    };
    let row = |end: &&str| name::join("slabtest", &format!("{}{end}", job.variant), job.size);
    endings.iter().map(row).collect()
}

/// Takes samples of one part.
pub(crate) fn sampler<C: Contender>(job: &Job, contender: C) -> Result<Sampler, Failure> {
    let size = black_box(job.size.unwrap_or_default());
    match job.variant.as_str() {
        "1" => Ok(part_1(contender, size)),
        "2" => Ok(part_2(contender, size)),
        "3" => concurrent(job, contender, Course::allocate, Course::free_own, split_evenly),
        "4" => concurrent(
            job,
            contender,
            Course::pairs,
            |_, _| {},
            |times| vec![mean(&times.phase_1) / OBJECTS as f64],
        ),
        "5" => concurrent(job, contender, Course::allocate_remote, Course::free_all, remote_free),
        _ => concurrent(job, contender, Course::one_allocates, Course::free_rest, one_for_all),
    }
}

fn part_1<C: Contender>(contender: C, size: usize) -> Sampler {
    let objects = table();
    Box::new(move || {
        contender.enter_thread();
        let (mut alloc, mut free) = (Duration::ZERO, Duration::ZERO);
        for cycle in 0..=CYCLES {
            let start = Instant::now();
            fill(&contender, size, &objects);
            let middle = Instant::now();
            empty(&contender, size, &objects);
            let end = Instant::now();
            // The first cycle brings the contender's own memory back into the caches.
            if cycle > 0 {
                alloc += middle - start;
                free += end - middle;
            }
        }
        let each = |time| per_operation(time, OBJECTS * CYCLES);
        Ok(vec![each(alloc), each(free)])
    })
}

fn part_2<C: Contender>(contender: C, size: usize) -> Sampler {
    Box::new(move || {
        contender.enter_thread();
        untouched_pairs(&contender, size, OBJECTS / 10);
        let start = Instant::now();
        untouched_pairs(&contender, size, OBJECTS * CYCLES);
        Ok(vec![per_operation(start.elapsed(), OBJECTS * CYCLES)])
    })
}

/// An array of as many empty places as the test has objects.
fn table() -> Box<[AtomicPtr<u8>]> {
    (0..OBJECTS).map(|_| AtomicPtr::default()).collect()
}

#[inline(never)]
fn fill<C: Contender>(contender: &C, size: usize, objects: &[AtomicPtr<u8>]) {
    for place in objects {
        let object = contender.alloc(size);
        touch(object);
        // Relaxed: a thread that reads it has passed a gate since.
        place.store(object, Ordering::Relaxed);
    }
}

#[inline(never)]
fn empty<C: Contender>(contender: &C, size: usize, objects: &[AtomicPtr<u8>]) {
    for place in objects {
        // Relaxed: as in `fill`.
        let object = place.load(Ordering::Relaxed);
        if !object.is_null() {
            touch(object);
            // SAFETY: `fill` allocated them all, and each place is visited once.
            unsafe { contender.free(object, size) };
        }
    }
}

/// The original's part 2 does not write to the object.
#[inline(never)]
fn untouched_pairs<C: Contender>(contender: &C, size: usize, count: usize) {
    for _ in 0..count {
        let object = contender.alloc(size);
        if object.is_null() {
            out_of_memory();
        }
        black_box(object);
        // SAFETY: allocated above and freed once.
        unsafe { contender.free(object, size) };
    }
}

/// What the threads of a concurrent part share.
struct Course<C> {
    contender: C,
    size: usize,
    /// One table for each CPU.
    objects: Vec<Box<[AtomicPtr<u8>]>>,
}

/// What each CPU needed for both phases, in nanoseconds.
struct Times {
    phase_1: Vec<f64>,
    phase_2: Vec<f64>,
}

type Phase<C> = fn(&Course<C>, usize);

/// Runs two phases on all CPUs at once, with a gate before, between and behind them.
fn concurrent<C: Contender>(
    job: &Job,
    contender: C,
    phase_1: Phase<C>,
    phase_2: Phase<C>,
    evaluate: fn(&Times) -> Vec<f64>,
) -> Result<Sampler, Failure> {
    let cpus = job.threads;
    let crew = Crew::of(cpus)?;
    let objects = (0..cpus).map(|_| table()).collect();
    let course = Arc::new(Course { contender, size: job.size.unwrap_or_default(), objects });
    Ok(Box::new(move || {
        let gate = Gate::new(cpus);
        let course = Arc::clone(&course);
        let times = crew.run(move |cpu| {
            course.contender.enter_thread();
            let timed = |phase: Phase<C>| {
                gate.pass();
                let start = Instant::now();
                phase(&course, cpu);
                start.elapsed().as_nanos() as f64
            };
            let times = (timed(phase_1), timed(phase_2));
            gate.pass();
            times
        });
        let (phase_1, phase_2) = times.into_iter().unzip();
        Ok(evaluate(&Times { phase_1, phase_2 }))
    }))
}

impl<C: Contender> Course<C> {
    fn allocate(&self, cpu: usize) {
        fill(&self.contender, self.size, &self.objects[cpu]);
    }

    fn free_own(&self, cpu: usize) {
        empty(&self.contender, self.size, &self.objects[cpu]);
    }

    fn pairs(&self, _cpu: usize) {
        for _ in 0..OBJECTS {
            let object = self.contender.alloc(self.size);
            touch(object);
            // SAFETY: allocated above and freed once.
            unsafe { self.contender.free(object, self.size) };
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
            self.objects.iter().for_each(|table| empty(&self.contender, self.size, table));
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
                let object = self.contender.alloc(self.size);
                touch(object);
                // Release: partner is the acquire load in `free_when_there`.
                table[index].store(object, Ordering::Release);
            }
        }
    }

    fn free_when_there(&self, place: &AtomicPtr<u8>) {
        let mut wait = Wait::new();
        loop {
            // Acquire: partner is the release store in `one_allocates`.
            let object = place.load(Ordering::Acquire);
            if !object.is_null() {
                touch(object);
                // SAFETY: the first CPU allocated it for this one alone.
                unsafe { self.contender.free(object, self.size) };
                // Relaxed: the first CPU writes here again only behind the next gate.
                place.store(core::ptr::null_mut(), Ordering::Relaxed);
                return;
            }
            wait.turn();
        }
    }

    /// The original leaks what no CPU freed; here each CPU frees the rest of its table.
    fn free_rest(&self, cpu: usize) {
        for place in &self.objects[cpu] {
            // Relaxed: the gate between the phases orders this behind all stores.
            let object = place.swap(core::ptr::null_mut(), Ordering::Relaxed);
            if !object.is_null() {
                // SAFETY: allocated by the first CPU, left over, and taken out of the table here.
                unsafe { self.contender.free(object, self.size) };
            }
        }
    }
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
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
mod tests {
    use super::*;

    #[test]
    fn all_six_parts_are_there_and_concurrent_ones_stop_at_a_page() {
        let jobs = jobs(&[64, 16384]);
        let names: Vec<_> = jobs.iter().flat_map(Job::rows).collect();
        for name in ["slabtest/1-alloc/64", "slabtest/1-free/16384", "slabtest/2/16384"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        for name in ["3-alloc", "4", "5-free", "5-printed2", "6-alloc", "6-printed"] {
            assert!(names.contains(&format!("slabtest/{name}/64")), "{name}");
            assert!(!names.contains(&format!("slabtest/{name}/16384")), "{name}");
        }
    }

    #[test]
    fn corrected_figures_divide_by_what_was_done() {
        let objects = OBJECTS as f64;
        let times = Times { phase_1: vec![0.0, 8.0 * objects], phase_2: vec![6.0 * objects, 0.0] };
        assert_eq!(remote_free(&times), [8.0, 6.0, 4.0, 3.0]);
        let times = Times { phase_1: vec![8.0 * objects, 6.0 * objects], phase_2: vec![] };
        assert_eq!(one_for_all(&times), [8.0, 12.0, 7.0]);
    }
}
