//! Lookups among changes, in a map that has its capacity from the start.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::contenders::maps::{Map, Ours, Papaya, Work, value_of};
use crate::harness::{Contender, Failure, Random, Sampler, Workers, scale};

/// Operations of each thread in a sample.
const OPERATIONS: usize = 64 * 1024;
/// Operations before the clock starts, and after.
const OPERATIONS_UNTIMED: usize = 1024;

/// Operations for which `-held` holds a guard.
const HELD: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) name: &'static str,
    /// Lookups in 1024 operations.
    pub(super) lookups: u64,
    /// Whether entries go, as many as come.
    pub(super) removes: bool,
}

pub(super) const MIXES: [Mix; 3] = [
    Mix { name: "read-99", lookups: 1014, removes: false },
    Mix { name: "mixed-90", lookups: 922, removes: true },
    Mix { name: "write-50", lookups: 512, removes: true },
];

/// `EACH` is the number of operations for which a guard is held.
#[derive(Clone, Copy)]
pub(super) struct Operations<const EACH: usize> {
    pub(super) mix: Mix,
    pub(super) threads: usize,
    pub(super) entries: usize,
}

/// The contenders that hold a guard.
pub(super) fn held(mix: Mix, threads: usize, entries: usize) -> [Contender; 2] {
    let work = Operations::<HELD> { mix, threads, entries };
    [
        Contender::new("rcu-map-held", move || work.sampler::<Ours>()),
        Contender::new("papaya-held", move || work.sampler::<Papaya>()),
    ]
}

/// A key's place among all keys, spread over all numbers, so that neighbours are none.
#[inline(always)]
pub(super) fn key_of(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl<const EACH: usize> Work for Operations<EACH> {
    fn sampler<M: Map>(self) -> Result<Sampler, Failure> {
        let Operations { mix, threads, entries } = self;
        let contender = M::with_capacity(entries);
        let guard = contender.guard();
        // Where entries come and go there are twice as many keys, of which half are there.
        let (keys, step) = if mix.removes { (entries * 2, 2) } else { (entries, 1) };
        for index in (0..keys as u64).step_by(step) {
            contender.insert(key_of(index), value_of(key_of(index)), &guard);
        }
        drop(guard);
        let (contender, workers) = (Arc::new(contender), Workers::of(threads)?);
        let seeds = AtomicU64::new(1);
        Ok(Box::new(move || {
            let wrong = Arc::new(AtomicUsize::new(0));
            let (contender, all_wrong) = (Arc::clone(&contender), Arc::clone(&wrong));
            // Relaxed, here and below: numbers.
            let seed = seeds.fetch_add(threads as u64, Ordering::Relaxed);
            let time = workers.time(OPERATIONS_UNTIMED, OPERATIONS, move |index| {
                let (contender, all_wrong) = (Arc::clone(&contender), Arc::clone(&all_wrong));
                let mut random = Random::new(seed + index as u64);
                move |count| {
                    let keys = keys as u32;
                    let wrong = operate::<M, EACH>(&*contender, mix, keys, &mut random, count);
                    all_wrong.fetch_add(wrong, Ordering::Relaxed);
                }
            });
            if wrong.load(Ordering::Relaxed) > 0 {
                return Err(Failure::run("a lookup found a wrong value"));
            }
            Ok(vec![time])
        }))
    }
}

/// Random operations; how many lookups found what does not belong there, or missed what does.
#[inline(never)]
pub(super) fn operate<M: Map, const EACH: usize>(
    contender: &M,
    mix: Mix,
    keys: u32,
    random: &mut Random,
    count: usize,
) -> usize {
    let mut wrong = 0;
    for _ in 0..count / EACH {
        let guard = contender.guard();
        for _ in 0..EACH {
            let bits = random.next();
            let key = key_of(u64::from(scale((bits >> 32) as u32, keys)));
            if bits % 1024 < mix.lookups {
                match contender.get(key, &guard) {
                    Some(value) => wrong += usize::from(value != value_of(key)),
                    None => wrong += usize::from(!mix.removes),
                }
            } else if mix.removes && bits & 1024 != 0 {
                contender.remove(key, &guard);
            } else {
                contender.insert(key, value_of(key), &guard);
            }
        }
    }
    wrong
}
