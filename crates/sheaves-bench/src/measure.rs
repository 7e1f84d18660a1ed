//! Takes samples: contenders one after the other, in a new random order each round, so that what
//! the machine does meanwhile hits all of them alike.

use core::time::Duration;
use std::time::Instant;

use crate::contender::Kind;
use crate::failure::Failure;
use crate::report::work::Work;

/// One contender made ready for one workload.
pub(crate) trait Sample {
    /// Takes one sample: one number for each row of the workload, in nanoseconds per operation.
    fn sample(&mut self) -> Result<Vec<f64>, Failure>;

    /// What the contender did for the first sample, in numbers that do not depend on the machine,
    /// where it counts. It is the same for all rows of the workload.
    fn work(&self) -> Option<Work> {
        None
    }
}

impl<F: FnMut() -> Result<Vec<f64>, Failure>> Sample for F {
    fn sample(&mut self) -> Result<Vec<f64>, Failure> {
        self()
    }
}

/// What takes the samples of a lane.
pub(crate) type Sampler = Box<dyn Sample>;

/// One contender in one workload.
pub(crate) struct Lane {
    /// Who runs here.
    pub(crate) kind: Kind,
    /// How to take a sample of it.
    pub(crate) sampler: Sampler,
}

/// How many rounds a workload gets: as many as fit its time, within bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds that are run and forgotten.
    pub(crate) warm_up: usize,
    /// Rounds that are run whatever they cost.
    pub(crate) rounds_min: usize,
    /// Rounds that are never exceeded.
    pub(crate) rounds_max: usize,
    /// Time for one workload, all contenders together.
    pub(crate) time_max: Duration,
}

impl Effort {
    /// For figures that are kept.
    pub(crate) const FULL: Effort = Effort {
        warm_up: 3,
        rounds_min: 15,
        rounds_max: 101,
        time_max: Duration::from_millis(3000),
    };
    /// For workloads that take seconds, figures that are kept.
    pub(crate) const LONG: Effort = Effort {
        warm_up: 0,
        rounds_min: 3,
        rounds_max: 101,
        time_max: Duration::from_millis(3000),
    };
    /// For workloads that take seconds, a first look.
    pub(crate) const LONG_QUICK: Effort =
        Effort { warm_up: 0, rounds_min: 3, rounds_max: 41, time_max: Duration::from_millis(400) };
    /// For workloads that take a tenth of a second, figures that are kept.
    pub(crate) const WAITS: Effort = Effort {
        warm_up: 1,
        rounds_min: 11,
        rounds_max: 101,
        time_max: Duration::from_millis(5000),
    };
    /// For workloads that take a tenth of a second, a first look.
    pub(crate) const WAITS_QUICK: Effort =
        Effort { warm_up: 1, rounds_min: 3, rounds_max: 41, time_max: Duration::from_millis(1000) };
    /// For a first look.
    pub(crate) const QUICK: Effort =
        Effort { warm_up: 1, rounds_min: 5, rounds_max: 41, time_max: Duration::from_millis(400) };
}

/// What [`run`] brings back: `[lane][row][round]`.
pub(crate) type Series = Vec<Vec<Vec<f64>>>;

/// Runs the rounds of one workload; `tick` is told the share of it that is done.
pub(crate) fn run(
    lanes: &mut [Lane],
    effort: Effort,
    shuffle: &mut Shuffle,
    mut tick: impl FnMut(f64),
) -> Result<Series, Failure> {
    let mut series: Series = vec![Vec::new(); lanes.len()];
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    for _ in 0..effort.warm_up {
        for lane in lanes.iter_mut() {
            lane.sampler.sample()?;
        }
    }
    let start = Instant::now();
    for round in 0..effort.rounds_max {
        let spent = start.elapsed();
        if round >= effort.rounds_min && spent >= effort.time_max {
            break;
        }
        let by_time = spent.as_secs_f64() / effort.time_max.as_secs_f64();
        let by_rounds = round as f64 / effort.rounds_max as f64;
        tick(by_time.max(by_rounds).min(1.0));
        shuffle.shuffle(&mut order);
        for index in &order {
            let values = lanes[*index].sampler.sample()?;
            let rows = &mut series[*index];
            rows.resize(values.len(), Vec::new());
            rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        }
    }
    tick(1.0);
    Ok(series)
}

/// A small random generator (xorshift64*): the order of contenders and the pattern of accesses
/// shall be random to the machine, and the same in every run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    state: u64,
}

impl Shuffle {
    /// A generator; different seeds give different series.
    pub(crate) fn new(seed: u64) -> Shuffle {
        Shuffle { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// The next 64 random bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, taken from 32 random bits without a division.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        scale((self.next() >> 32) as u32, bound)
    }

    /// Brings a slice into random order.
    pub(crate) fn shuffle<T>(&mut self, slice: &mut [T]) {
        for end in (1..slice.len()).rev() {
            slice.swap(end, self.below(end as u32 + 1) as usize);
        }
    }
}

/// Scales 32 random bits to a number below `bound`.
#[inline]
pub(crate) fn scale(bits: u32, bound: u32) -> u32 {
    ((u64::from(bits) * u64::from(bound)) >> 32) as u32
}

/// Makes the process a threaded one for good, before anything is measured.
///
/// glibc's malloc leaves out its locks while a process has never had a second thread. Tables that
/// use threads and tables that do not would then measure two different allocators.
pub(crate) fn become_threaded() {
    std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use core::cell::RefCell;

    #[test]
    fn every_round_asks_every_lane_once() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let lane = |kind: Kind| {
            let log = Rc::clone(&log);
            let sampler: Sampler = Box::new(move || {
                log.borrow_mut().push(kind);
                Ok(vec![1.0, 2.0])
            });
            Lane { kind, sampler }
        };
        let mut lanes = [lane(Kind::Cache), lane(Kind::Sized), lane(Kind::Malloc)];
        let effort =
            Effort { warm_up: 1, rounds_min: 4, rounds_max: 9, time_max: Duration::from_secs(60) };
        let mut share = 0.0;
        let series = run(&mut lanes, effort, &mut Shuffle::new(1), |s| share = s).unwrap();
        assert!((share - 1.0).abs() < 1e-9);
        assert!(series.iter().all(|rows| rows.len() == 2 && rows[0].len() == 9));
        let log = log.borrow();
        assert_eq!(log.len(), 3 * 10);
        for round in log.chunks(3) {
            for lane in &lanes {
                assert!(round.contains(&lane.kind));
            }
        }
        let orders: std::collections::HashSet<_> =
            log.chunks(3).map(|round| format!("{round:?}")).collect();
        assert!(orders.len() > 1, "the order must change from round to round");
    }

    #[test]
    fn the_shuffle_is_a_permutation_and_repeats() {
        let mut numbers: Vec<u32> = (0..1000).collect();
        Shuffle::new(7).shuffle(&mut numbers);
        let mut again: Vec<u32> = (0..1000).collect();
        Shuffle::new(7).shuffle(&mut again);
        assert_eq!(numbers, again);
        assert_ne!(numbers[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn scaled_numbers_stay_below_the_bound() {
        let mut shuffle = Shuffle::new(3);
        assert!((0..10_000).all(|_| shuffle.below(126) < 126));
        assert_eq!(scale(u32::MAX, 126), 125);
        assert_eq!(scale(0, 126), 0);
    }
}
