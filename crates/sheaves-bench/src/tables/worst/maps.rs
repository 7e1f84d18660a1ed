//! The longest call of a hash map that grows from nothing, is iterated over, halved and cleared.

use foldhash::fast::FixedState;

use super::times::{Clock, MEASURES, Times};
use crate::contenders::maps::{self, Map, PEERS, WORDS, Work, value_of};
use crate::harness::{Case, Failure, Judge, Measure, Random, Sampler};

/// As rows call what is timed, in the order of a sample.
const CALLS: [&str; 4] = ["map-insert", "map-next", "map-remove", "map-clear"];
/// The longest insertion, whatever the number of entries.
const INSERT_MS_MAX: f64 = 1.0;

pub(super) fn case(entries: usize) -> Case {
    let row = |call: &&'static str| {
        let call = *call;
        let name = format!("{call}/{entries}");
        Measure::rows(&MEASURES, ("worst", &name), &format!("worst/{name}"), move |row, measure| {
            compare(row, call, measure);
        })
    };
    let contenders = maps::contenders::<u64, FixedState>(Calls { entries });
    Case::new(CALLS.iter().flat_map(row).collect(), contenders)
}

fn compare(row: &mut Judge<'_>, call: &str, measure: &str) {
    for ours in ["rcu-map", WORDS] {
        if matches!(measure, "" | "-p9999") {
            PEERS.iter().for_each(|peer| row.compare(ours, peer, None));
        }
        if call == "map-insert" && measure.is_empty() {
            let milliseconds = row.median(ours).map(|nanoseconds| nanoseconds / 1e6);
            row.limit(ours, "1 ms", milliseconds, INSERT_MS_MAX);
        }
    }
}

#[derive(Clone, Copy)]
struct Calls {
    entries: usize,
}

impl Work for Calls {
    fn sampler<M: Map>(self) -> Result<Sampler, Failure> {
        let mut keys: Vec<u64> = (0..self.entries as u64).collect();
        Random::new(7).shuffle(&mut keys);
        Ok(Box::new(move || {
            let times = run::<M>(&keys)?;
            Ok(times.iter().flat_map(Times::figures).collect())
        }))
    }
}

/// Each call enters a section and leaves it, but the steps of an iteration, which share one.
fn run<M: Map>(keys: &[u64]) -> Result<[Times; CALLS.len()], Failure> {
    let map = M::with_capacity(0);
    let [mut insert, mut next, mut remove, mut clear] =
        core::array::from_fn(|_| Times::new(Clock::Cpu));
    for key in keys {
        insert.time(|| map.insert(*key, value_of(*key), &map.guard()));
    }
    let guard = map.guard();
    let mut begin = next.now();
    map.each(&guard, |_| begin = next.note_since(begin));
    drop(guard);
    for key in &keys[keys.len() / 2..] {
        remove.time(|| map.remove(*key, &map.guard()));
    }
    let left = map.len();
    clear.time(|| map.clear());
    let is_right = next.count() == keys.len() as u64 && left == keys.len() / 2 && map.len() == 0;
    is_right
        .then_some([insert, next, remove, clear])
        .ok_or_else(|| Failure::run("a map has lost entries, or has kept some"))
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_worst_maps.rs"]
mod tests;
