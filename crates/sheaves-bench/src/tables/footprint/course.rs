//! What a program does until all is quiet, and its memory from then on.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use super::blocks::{Blocks, MIB, own};
use crate::contenders::allocators::{Allocator, Workload};
use crate::harness::{
    Failure, Forked, Sampler, Workers, peak_bytes, process_time, reset_peak, resident_bytes, scale,
};

const BURSTS: u32 = 5;
/// Mean of [`small`].
const SMALL_MEAN: usize = 264;
const PHASES: usize = 24;
/// Sizes of the phases, in turn.
const PHASE_SIZES: [usize; 3] = [100, 1 << 10, 10 << 10];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    All { has_second_thread: bool },
    Tenth,
    Foreign,
    Bursts,
    Day,
    Fork,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    pub(super) kind: Kind,
    /// Of all blocks, or of one burst or phase.
    pub(super) bytes: usize,
    /// From one burst to the next, and between two phases.
    pub(super) between: Duration,
    /// From the last free to the first and to the second look.
    pub(super) quiet: [Duration; 2],
}

impl Course {
    pub(super) fn new(kind: Kind, is_quick: bool) -> Course {
        let [bytes, quiet] = if is_quick { [256 * MIB, 4] } else { [1024 * MIB, 10] };
        let (bytes, between) = match kind {
            Kind::Bursts => (bytes / 4, 1000),
            Kind::Day => (bytes / 4, 250),
            _ => (bytes, 0),
        };
        let quiet = [2, quiet as u64].map(Duration::from_secs);
        Course { kind, bytes, between: Duration::from_millis(between), quiet }
    }

    fn threads(self) -> usize {
        match self.kind {
            Kind::All { has_second_thread: false } => 0,
            Kind::Tenth | Kind::Foreign => 2,
            _ => 1,
        }
    }

    /// Blocks that are live at once, at most.
    fn blocks_max(self) -> usize {
        let size_mean = if self.kind == Kind::Day { PHASE_SIZES[0] } else { SMALL_MEAN };
        self.bytes / size_mean * 5 / 4 + 1000
    }
}

/// Small blocks, of 264 bytes in the mean.
fn small(bits: u32) -> usize {
    16 + scale(bits, 497) as usize
}

impl Workload for Course {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let program = Program::new(self, Arc::new(allocator))?;
        Ok(Box::new(move || {
            let before = resident_bytes();
            let grown = |bytes: u64| bytes.saturating_sub(before) as f64;
            reset_peak()?;
            let _forked = program.run()?;
            let at_once = resident_bytes();
            let peak = grown(peak_bytes().max(at_once));
            let cpu = process_time();
            let [first, second] = self.quiet;
            std::thread::sleep(first);
            let later = resident_bytes();
            std::thread::sleep(second - first);
            let last = resident_bytes();
            let cpu = (process_time() - cpu).as_nanos() as f64;
            let is_trimmed = program.allocator.trim();
            let trimmed = if is_trimmed { grown(resident_bytes()) } else { f64::NAN };
            Ok(vec![peak, grown(at_once), grown(later), grown(last), trimmed, cpu])
        }))
    }
}

/// All that is there before the start: the threads, which have used the allocator, and the room for
/// addresses of blocks.
struct Program<A: Allocator> {
    course: Course,
    allocator: Arc<A>,
    /// Other threads than this one; none with one thread.
    workers: Option<Rc<Workers>>,
    /// Two sets where two threads allocate.
    sets: Arc<Vec<Mutex<Blocks<A>>>>,
}

impl<A: Allocator> Program<A> {
    fn new(course: Course, allocator: Arc<A>) -> Result<Program<A>, Failure> {
        let sets = if course.kind == Kind::Tenth { 2 } else { 1 };
        let set = |seed| Blocks::new(Arc::clone(&allocator), course.blocks_max() / sets, seed);
        let sets = Arc::new((0..sets as u64).map(set).map(Mutex::new).collect::<Vec<_>>());
        let threads = Some(course.threads()).filter(|threads| *threads > 0);
        let workers = threads.map(Workers::of).transpose()?;
        allocator.enter_thread();
        if let Some(workers) = &workers {
            let allocator = Arc::clone(&allocator);
            workers.run(move |_| {
                allocator.enter_thread();
                Blocks::new(Arc::clone(&allocator), 1, 0).add(1, small);
            });
        }
        Ok(Program { course, allocator, workers, sets })
    }

    fn run(&self) -> Result<Option<Forked>, Failure> {
        let bytes = self.course.bytes;
        let mut forked = None;
        match self.course.kind {
            Kind::All { .. } => fill_and_empty(&mut own(&self.sets[0]), bytes),
            Kind::Tenth => self.on_workers(move |worker, sets| {
                let mut blocks = own(&sets[worker]);
                blocks.add(bytes / 2, small);
                let kept = blocks.len() / 10;
                blocks.free_all_but(kept);
            }),
            Kind::Foreign => {
                self.on_workers(move |worker, sets| {
                    if worker == 0 {
                        own(&sets[0]).add(bytes, small);
                    }
                });
                self.on_workers(|worker, sets| {
                    if worker == 1 {
                        own(&sets[0]).free_all_but(0);
                    }
                });
            }
            Kind::Bursts => self.bursts(),
            Kind::Day => self.day(),
            Kind::Fork => {
                let mut blocks = own(&self.sets[0]);
                blocks.add(bytes, small);
                forked = Some(Forked::idle()?);
                blocks.free_all_but(0);
            }
        }
        Ok(forked)
    }

    fn on_workers(&self, task: impl Fn(usize, &[Mutex<Blocks<A>>]) + Send + Sync + 'static) {
        let sets = Arc::clone(&self.sets);
        if let Some(workers) = &self.workers {
            workers.run(move |worker| task(worker, &sets));
        }
    }

    fn bursts(&self) {
        let mut blocks = own(&self.sets[0]);
        let start = Instant::now();
        for burst in 0..BURSTS {
            let due = self.course.between * burst;
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            fill_and_empty(&mut blocks, self.course.bytes);
        }
    }

    fn day(&self) {
        let mut blocks = own(&self.sets[0]);
        for phase in 0..PHASES {
            if phase > 0 {
                std::thread::sleep(self.course.between);
            }
            let kept = blocks.len();
            blocks.add(self.course.bytes, |_| PHASE_SIZES[phase % PHASE_SIZES.len()]);
            blocks.free(0..kept);
            let kept = blocks.len() / 5;
            blocks.free_all_but(kept);
        }
    }
}

fn fill_and_empty<A: Allocator>(blocks: &mut Blocks<A>, bytes: usize) {
    blocks.add(bytes, small);
    blocks.free_all_but(0);
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_footprint_course.rs"]
mod tests;
