//! Waits beside threads that always read, and perhaps beside processes that are always busy.
//!
//! In `20us-8r-4u+6` four threads wait, 100 times each, while eight run sections of about 20 us
//! without a pause, beside six busy processes.

use alloc::sync::Arc;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;

use super::contenders::{Wait, Worked};
use crate::harness::{Failure, Forked, Options, Workers};

/// Of each updater.
const CALLS: usize = 100;
/// Processes that are always busy.
const PROCESSES: usize = 6;
/// About 20 ns, and 20 us.
const STEPS: [(&str, usize); 2] = [("20ns", 20), ("20us", 20_000)];
const MOMENT: Duration = Duration::from_micros(100);
/// Sections between two looks whether the updaters have ended: a fraction of a millisecond.
const SECTIONS_NS: usize = 200_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy {
    readers: usize,
    section: (&'static str, usize),
    updaters: usize,
    processes: usize,
}

impl Busy {
    pub(super) fn all(options: &Options) -> impl Iterator<Item = Busy> {
        let few = options.few;
        let numbers = [1, 2, 4, 8].into_iter().flat_map(|readers| [(readers, 1), (readers, 4)]);
        let numbers = numbers.filter(move |numbers| !few || *numbers == (2, 1));
        numbers.flat_map(|(readers, updaters)| {
            STEPS.into_iter().flat_map(move |section| {
                [0, PROCESSES].map(|processes| Busy { readers, section, updaters, processes })
            })
        })
    }

    /// Such as `20us-8r-4u+6`.
    pub(super) fn name(self) -> String {
        let Busy { readers, section: (section, _), updaters, processes } = self;
        let others = if processes == 0 { String::new() } else { format!("+{processes}") };
        format!("{section}-{readers}r-{updaters}u{others}")
    }

    pub(super) fn workers(self) -> Result<alloc::rc::Rc<Workers>, Failure> {
        Workers::of(self.updaters + self.readers)
    }

    /// Updaters wait [`CALLS`] times each, while the other workers read.
    pub(super) fn run<C: Wait>(
        self,
        workers: &Workers,
        contender: &Arc<C>,
    ) -> Result<Vec<Worked>, Failure> {
        let busy = || Forked::start(|| while black_box(true) {});
        let _others: Vec<_> = (0..self.processes).map(|_| busy()).collect::<Result<_, _>>()?;
        let updating = Arc::new(AtomicUsize::new(self.updaters));
        let reading = Arc::new(AtomicUsize::new(0));
        let start = Arc::new(Barrier::new(workers.len()));
        let own = Arc::clone(contender);
        let worked = workers.run(move |index| {
            own.enter_thread();
            own.pause();
            start.wait();
            own.resume();
            let worked = if index < self.updaters {
                // Relaxed, here and below: a count.
                while reading.load(Ordering::Relaxed) < self.readers {
                    std::thread::sleep(MOMENT);
                }
                let worked = wait_often(&*own);
                updating.fetch_sub(1, Ordering::Relaxed);
                Some(worked)
            } else {
                let (_, steps) = self.section;
                own.read(SECTIONS_NS / steps, steps);
                reading.fetch_add(1, Ordering::Relaxed);
                // Relaxed, here and above: ends the loop.
                while updating.load(Ordering::Relaxed) != 0 {
                    own.read(SECTIONS_NS / steps, steps);
                }
                None
            };
            own.leave_thread();
            worked
        });
        Ok(worked.into_iter().flatten().collect())
    }
}

fn wait_often<C: Wait>(contender: &C) -> Worked {
    let mut calls = vec![0; CALLS];
    let start = Instant::now();
    for call in &mut calls {
        let begin = Instant::now();
        contender.synchronize();
        *call = begin.elapsed().as_nanos() as u64;
    }
    Worked { start, end: Instant::now(), calls }
}
