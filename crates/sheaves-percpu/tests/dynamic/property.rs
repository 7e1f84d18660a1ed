//! Random operations, after each of which all metadata is recomputed and compared.

use crate::dynamic::{Config, OBJECT_BYTES_MAX};

use super::random::Random;
use super::tester::{Outcome, Tester};

/// The kind of requests in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sizes {
    /// 1 to 64 bytes, small alignments: many objects, many holes.
    Small,
    /// Three objects of 16, 16 and 20 bytes, the first two aligned to 16.
    Three,
    /// 1 byte to 32 KiB, alignments to 4096.
    All,
    /// About the size of whole pages.
    Pages,
    /// Small, with large alignments.
    Aligned,
}

impl Sizes {
    pub(crate) const ALL: [Sizes; 5] =
        [Sizes::Small, Sizes::Three, Sizes::All, Sizes::Pages, Sizes::Aligned];

    fn request(self, random: &mut Random) -> (usize, usize) {
        match self {
            Sizes::Small => (1 + random.below(64), 1 << random.below(6)),
            Sizes::Three => [(16, 16), (16, 16), (20, 4)][random.below(3)],
            Sizes::All => (random.log_uniform(OBJECT_BYTES_MAX), 1 << random.below(13)),
            Sizes::Pages => {
                let pages = 1 + random.below(8);
                let size = (pages * 4096 + 8 - 4 * random.below(5)).min(OBJECT_BYTES_MAX);
                (size, 1 << random.below(13))
            }
            Sizes::Aligned => (random.log_uniform(512), 1 << (4 + random.below(9))),
        }
    }
}

/// One run: operations that make the number of objects grow, shrink and fluctuate in turn.
pub(crate) fn run(tester: &mut Tester, sizes: Sizes, seed: u64, operations: usize) -> Outcome {
    let mut random = Random::new(seed);
    let (mut allocations_in_16, mut mixed) = (12, false);
    for operation in 0..operations {
        if operation % 256 == 0 {
            allocations_in_16 = [14, 9, 8, 8, 6, 1][random.below(6)];
            mixed = random.once_in(4);
        }
        let sizes = if mixed { Sizes::ALL[random.below(5)] } else { sizes };
        let step = step(tester, sizes, &mut random, allocations_in_16);
        tester.allocator.backing_mut().allowance = usize::MAX;
        step.map_err(|error| format!("operation {operation}: {error}"))?;
    }
    tester.finish()
}

fn step(
    tester: &mut Tester,
    sizes: Sizes,
    random: &mut Random,
    allocations_in_16: usize,
) -> Outcome {
    if tester.allocator.balance_wanted() && random.once_in(8) || random.once_in(500) {
        tester.balance()?;
    }
    if random.once_in(2000) {
        tester.trim()?;
    }
    if random.once_in(32) {
        tester.free_badly(random)?;
    }
    if random.once_in(64) {
        tester.allocator.backing_mut().allowance = random.below(4);
    }
    if random.below(16) < allocations_in_16 || tester.offsets.is_empty() {
        let (size, align) = sizes.request(random);
        tester.alloc(size, align)
    } else if random.once_in(4) {
        // The youngest object: its neighbours are likely free.
        tester.free(tester.offsets.len() - 1)
    } else {
        let index = random.below(tester.offsets.len());
        tester.free(index)
    }
}

/// Number of operations of the whole property test.
fn operations() -> usize {
    let given = std::env::var("SHEAVES_DYNAMIC_OPERATIONS").ok();
    given.map_or(60_000, |given| given.parse().expect("SHEAVES_DYNAMIC_OPERATIONS: a number"))
}

/// All units and sizes, each with an equal share of the operations.
#[test]
fn all_metadata_stays_exact() {
    let units = [32, 64, 128, 256];
    let runs = units.len() * Sizes::ALL.len();
    let share = operations().div_ceil(runs);
    let mut seed = 0;
    for unit in units {
        for sizes in Sizes::ALL {
            seed += 1;
            let chunks_max = 1024 / unit + seed as usize % 16;
            let config = Config { unit_bytes: unit << 10, chunks_max };
            let mut tester = Tester::new(config);
            if let Err(error) = run(&mut tester, sizes, seed, share) {
                panic!("{config:?}, {sizes:?}, seed {seed}: {error}");
            }
        }
    }
}
