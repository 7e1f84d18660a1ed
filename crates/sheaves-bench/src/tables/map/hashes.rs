//! Keys that differ in few bits of their hash: multiples of powers of two, and addresses.

use core::time::Duration;
use std::time::Instant;

use nohash_hasher::BuildNoHashHasher;
use rustc_hash::FxBuildHasher;

use super::course::fill;
use crate::contenders::maps::{Dash, Map, Ours, Seed, WORDS, Words, Work, value_of};
use crate::harness::{Case, Contender, Failure, Row, Sampler, per_operation};

/// More entries are left out: a map that these keys slow down takes their square.
const ENTRIES_MAX: usize = 10_000;
/// Entries of all maps of a sample together, at least.
const ENTRIES: usize = 16 * 1024;
/// The ratio to `dashmap`.
const RATIO_MAX: f64 = 1.5;

/// What the keys are: a multiple of 2 to this power each or, without one, an address of a block.
type Shift = Option<u32>;

const SHIFTS: [Shift; 6] = [Some(0), Some(4), Some(8), Some(12), Some(20), None];

pub(super) fn cases(entries: usize) -> impl Iterator<Item = Case> {
    let shifts = SHIFTS.into_iter().filter(move |_| entries <= ENTRIES_MAX);
    shifts.flat_map(move |shift| {
        [case::<FxBuildHasher>("fx", shift, entries), case::<Identity>("identity", shift, entries)]
    })
}

type Identity = BuildNoHashHasher<u64>;

fn case<S: Seed>(hasher: &str, shift: Shift, entries: usize) -> Case {
    let keys = shift.map_or("address".to_owned(), |shift| format!("shift-{shift}"));
    let row = Row::sized(&format!("map/{hasher}/{keys}/1t"), entries).compared(|row| {
        for ours in ["rcu-map", WORDS] {
            row.hold(ours, "dashmap", Some(RATIO_MAX));
        }
    });
    let work = Keys { shift, entries };
    let contenders = vec![
        Contender::new("rcu-map", move || work.sampler::<Ours<u64, S>>()),
        Contender::new(WORDS, move || work.sampler::<Words<u64, S>>()),
        Contender::new("dashmap", move || work.sampler::<Dash<u64, S>>()),
    ];
    Case::new(vec![row], contenders)
}

#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) shift: Shift,
    pub(super) entries: usize,
}

impl Work for Keys {
    fn sampler<M: Map>(self) -> Result<Sampler, Failure> {
        let blocks: Vec<Box<[u64; 6]>> = (0..self.entries).map(|_| Box::default()).collect();
        let keys: Vec<u64> = match self.shift {
            Some(shift) => (0..self.entries as u64).map(|index| index << shift).collect(),
            None => blocks.iter().map(|block| (&raw const **block).addr() as u64).collect(),
        };
        Ok(Box::new(move || {
            // The addresses stay those of blocks that are in use.
            let _blocks = &blocks;
            let mut time = Duration::ZERO;
            let maps = ENTRIES.div_ceil(keys.len());
            for _ in 0..maps {
                let map = M::with_capacity(keys.len());
                let start = Instant::now();
                fill(&map, &keys);
                let found = count(&map, &keys);
                time += start.elapsed();
                if found != keys.len() {
                    return Err(Failure::run("a lookup found a wrong value, or none"));
                }
            }
            Ok(vec![per_operation(time, maps * keys.len())])
        }))
    }
}

/// How many of the keys have their value.
#[inline(never)]
fn count<M: Map>(map: &M, keys: &[u64]) -> usize {
    keys.iter().filter(|key| map.get(**key, &map.guard()) == Some(value_of(**key))).count()
}
