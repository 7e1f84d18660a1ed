//! Takes samples: contenders one after the other, in a new random order each round, so that what
//! the machine does meanwhile hits all of them alike.

use core::time::Duration;
use std::sync::Once;
use std::time::Instant;

use serde_json::Value;

use super::{Failure, Random};

pub(crate) trait Sample {
    /// One number for each row of the case. NaN: the contender does not measure this.
    fn sample(&mut self) -> Result<Vec<f64>, Failure>;

    /// What the contender did for the first sample, as a JSON object of numbers that do not depend
    /// on the machine, where it counts; or its memory over time.
    fn work(&self) -> Option<Value> {
        None
    }
}

impl<F: FnMut() -> Result<Vec<f64>, Failure>> Sample for F {
    fn sample(&mut self) -> Result<Vec<f64>, Failure> {
        self()
    }
}

/// What takes samples, and owns the contender.
pub(crate) type Sampler = Box<dyn Sample>;

/// How many rounds a case gets: as many as fit its time, within bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds that are run and forgotten.
    pub(crate) warm_up: usize,
    /// Rounds that are run whatever they cost.
    pub(crate) rounds_min: usize,
    /// Rounds that are never exceeded.
    pub(crate) rounds_max: usize,
    /// Time for one case, all contenders together.
    pub(crate) time_max: Duration,
    /// A contender whose samples have taken longer than this takes part in no further round.
    pub(crate) contender_time_max: Duration,
}

impl Effort {
    /// For samples of less than a millisecond.
    pub(crate) const SHORT: [Effort; 2] = [
        Effort {
            warm_up: 3,
            rounds_min: 15,
            rounds_max: 101,
            time_max: Duration::from_millis(3000),
            contender_time_max: Duration::MAX,
        },
        Effort {
            warm_up: 1,
            rounds_min: 5,
            rounds_max: 41,
            time_max: Duration::from_millis(400),
            contender_time_max: Duration::MAX,
        },
    ];
    /// For cases that take a tenth of a second.
    pub(crate) const WAITS: [Effort; 2] = [
        Effort {
            warm_up: 1,
            rounds_min: 11,
            time_max: Duration::from_millis(5000),
            ..Effort::SHORT[0]
        },
        Effort { rounds_min: 3, time_max: Duration::from_millis(1000), ..Effort::SHORT[1] },
    ];
    /// For cases that take seconds.
    pub(crate) const LONG: [Effort; 2] = [
        Effort { warm_up: 0, rounds_min: 3, ..Effort::SHORT[0] },
        Effort { warm_up: 0, rounds_min: 3, ..Effort::SHORT[1] },
    ];
}

/// What [`rounds`] brings back: `[contender][row][round]`.
pub(crate) type Series = Vec<Vec<Vec<f64>>>;

/// Runs the rounds of one case.
pub(crate) fn rounds(
    samplers: &mut [Sampler],
    effort: Effort,
    random: &mut Random,
) -> Result<Series, Failure> {
    let mut series: Series = vec![Vec::new(); samplers.len()];
    let mut spent_by = vec![Duration::ZERO; samplers.len()];
    let mut order: Vec<usize> = (0..samplers.len()).collect();
    for _ in 0..effort.warm_up {
        for sampler in samplers.iter_mut() {
            sampler.sample()?;
        }
    }
    let start = Instant::now();
    for round in 0..effort.rounds_max {
        if round >= effort.rounds_min && start.elapsed() >= effort.time_max {
            break;
        }
        random.shuffle(&mut order);
        for index in order.iter().copied() {
            if spent_by[index] > effort.contender_time_max {
                continue;
            }
            let begin = Instant::now();
            let values = samplers[index].sample()?;
            spent_by[index] += begin.elapsed();
            let rows = &mut series[index];
            rows.resize(values.len(), Vec::new());
            rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        }
    }
    Ok(series)
}

pub(crate) fn per_operation(time: Duration, operations: usize) -> f64 {
    time.as_nanos() as f64 / operations as f64
}

/// Does two halves of a cycle in turn: nanoseconds of each per operation. `between` is not timed,
/// and comes before each cycle; the first one, which brings the contender's own memory back into
/// the caches, is forgotten.
pub(crate) fn halves<S>(
    (cycles, operations): (usize, usize),
    state: &mut S,
    between: impl Fn(),
    first: impl Fn(&mut S),
    second: impl Fn(&mut S),
) -> [f64; 2] {
    let mut times = [Duration::ZERO; 2];
    for cycle in 0..=cycles {
        between();
        let start = Instant::now();
        first(state);
        let middle = Instant::now();
        second(state);
        let end = Instant::now();
        if cycle > 0 {
            times[0] += middle - start;
            times[1] += end - middle;
        }
    }
    times.map(|time| per_operation(time, operations * cycles))
}

/// Makes the process a threaded one for good, before anything is measured.
///
/// glibc's malloc leaves out its locks while a process has never had a second thread. Tables that
/// use threads and tables that do not would then measure two different allocators.
pub(crate) fn become_threaded() {
    static START: Once = Once::new();
    START.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    });
}

#[cfg(test)]
#[path = "../../tests/unit/harness_measure.rs"]
mod tests;
