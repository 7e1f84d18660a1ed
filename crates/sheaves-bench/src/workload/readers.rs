//! `readers`: entering a section and leaving it, and what is read in between.
//!
//! `enter-leave/Nt`: N threads enter and leave sections; the row is one section, averaged
//! over the threads. `load-K/Nt`: in each section they read a pointer and the value behind `K`
//! dependent loads, while one more thread replaces what the pointer leads to, all the time. The
//! row `load-K-replace/Nt` is one replacement, with whatever wait belongs to it.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::crew::{Crew, Gate};
use super::{Job, Table, name, per_operation};
use crate::contender::Kind;
use crate::contender::read::{self, DEPTH_MAX, Node, Read};
use crate::failure::Failure;
use crate::measure::Sampler;

/// Sections of each thread in a sample.
const SECTIONS: usize = 100_000;
/// Sections before the clock starts.
const SECTIONS_UNTIMED: usize = 2000;
/// The first part of the names of rows without loads.
const ENTER_LEAVE: &str = "enter-leave";

/// The first parts of the names of rows that stand for a workload.
pub(crate) fn parts() -> Vec<&'static str> {
    vec![ENTER_LEAVE, "load-1", "load-2", "load-3", "load-4", "load-5"]
}

/// One workload for each part and number of threads up to `threads`; few loads where few are asked.
pub(crate) fn jobs(threads: usize, quick: bool) -> Vec<Job> {
    let depths = [0, 1, 2, 3, 4, 5].into_iter().filter(|depth| !quick || [0, 1, 5].contains(depth));
    let each = |depth| (1..=threads).map(move |threads| job(depth, threads));
    depths.flat_map(each).collect()
}

fn job(depth: usize, threads: usize) -> Job {
    // The size is the number of loads, which the name has in its first part.
    let variant = name::join(parts()[depth], &format!("{threads}t"), None);
    Job::new(Table::Readers, variant, depth, threads)
}

/// The rows of a workload: sections, and replacements where there are any.
pub(crate) fn rows(job: &Job) -> Vec<String> {
    match job.variant.split_once('/') {
        Some((part, threads)) if job.size != Some(0) => {
            vec![job.variant.clone(), format!("{part}-replace/{threads}")]
        }
        _ => vec![job.variant.clone()],
    }
}

/// Whether a contender takes part. Where the floor stands nothing can ever be freed.
pub(crate) fn admits(job: &Job, kind: Kind) -> bool {
    kind != Kind::Increments || job.size == Some(0)
}

/// Takes samples: a section, and a replacement.
pub(crate) fn sampler(job: &Job, kind: Kind) -> Result<Sampler, Failure> {
    let depth = job.size.unwrap_or_default();
    read::visit(kind, depth.max(1), Prepare { depth, threads: job.threads })?
}

struct Prepare {
    depth: usize,
    threads: usize,
}

impl read::Visitor for Prepare {
    type Out = Result<Sampler, Failure>;

    fn visit<C: Read>(self, contender: C) -> Self::Out {
        let contender = Arc::new(contender);
        match self.depth {
            0 => sections(contender, self.threads),
            1 => loads::<C, 1>(contender, self.threads),
            2 => loads::<C, 2>(contender, self.threads),
            3 => loads::<C, 3>(contender, self.threads),
            4 => loads::<C, 4>(contender, self.threads),
            DEPTH_MAX => loads::<C, DEPTH_MAX>(contender, self.threads),
            depth => Err(Failure::run(format!("no reader has {depth} loads"))),
        }
    }
}

fn sections<C: Read>(contender: Arc<C>, threads: usize) -> Result<Sampler, Failure> {
    let crew = Crew::of(threads)?;
    Ok(Box::new(move || {
        let gate = Gate::new(threads);
        let contender = Arc::clone(&contender);
        let times = crew.run(move |_| {
            contender.enter_thread();
            contender.sections(SECTIONS_UNTIMED);
            gate.pass();
            let start = Instant::now();
            contender.sections(SECTIONS);
            let time = start.elapsed();
            // No thread stops while another is still being timed beside it.
            contender.sections(SECTIONS_UNTIMED);
            gate.pass();
            contender.leave_thread();
            time
        });
        Ok(vec![per_operation(times.iter().sum(), SECTIONS * threads)])
    }))
}

/// What a thread brings back: nanoseconds for each section, or for each replacement.
fn loads<C: Read, const K: usize>(contender: Arc<C>, threads: usize) -> Result<Sampler, Failure> {
    // One more thread, which replaces.
    let crew = Crew::of(threads + 1)?;
    Ok(Box::new(move || {
        let gate = Gate::new(threads + 1);
        let busy = AtomicUsize::new(threads);
        let contender = Arc::clone(&contender);
        let figures = crew.run(move |index| {
            if index == threads {
                return replace::<C, K>(&contender, &gate, &busy);
            }
            contender.enter_thread();
            gate.pass();
            let start = Instant::now();
            let sum = contender.loads::<K>(SECTIONS);
            let time = start.elapsed();
            // Relaxed: tells that a thread is done, and nothing else.
            busy.fetch_sub(1, Ordering::Relaxed);
            contender.leave_thread();
            check(sum).map(|()| per_operation(time, SECTIONS))
        });
        let mut figures = figures.into_iter().collect::<Result<Vec<f64>, Failure>>()?;
        let replacement = figures.pop().unwrap_or_default();
        Ok(vec![figures.iter().sum::<f64>() / threads as f64, replacement])
    }))
}

/// Replaces what is read until no thread reads any more, and once at the least.
fn replace<C: Read, const K: usize>(
    contender: &C,
    gate: &Gate,
    busy: &AtomicUsize,
) -> Result<f64, Failure> {
    gate.pass();
    let start = Instant::now();
    let mut count = 0;
    // Relaxed: as where it is counted down.
    while count == 0 || busy.load(Ordering::Relaxed) > 0 {
        contender.replace(Node::chain(K));
        count += 1;
    }
    Ok(per_operation(start.elapsed(), count))
}

/// What was read has to be what was there.
fn check(sum: u64) -> Result<(), Failure> {
    if sum == SECTIONS as u64 * Node::VALUE {
        return Ok(());
    }
    Err(Failure::run("a reader has read what was freed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_loads_and_threads() {
        let rows: Vec<_> = jobs(2, true).iter().flat_map(rows).collect();
        for row in ["enter-leave/1t", "enter-leave/2t", "load-1/1t", "load-5-replace/2t"] {
            assert!(rows.iter().any(|known| known == row), "{row} is missing in {rows:?}");
        }
        assert_eq!(jobs(2, false).len(), 12);
    }

    #[test]
    fn the_floor_frees_nothing() {
        assert!(admits(&job(0, 1), Kind::Increments) && !admits(&job(1, 1), Kind::Increments));
        assert!(admits(&job(1, 1), Kind::Srcu));
    }

    #[test]
    fn a_wrong_value_is_noticed() {
        assert!(check(SECTIONS as u64 * Node::VALUE).is_ok() && check(1).is_err());
    }
}
