//! The pattern that made the changes of 2019 necessary, on all presets: work counted, and timed
//! when asked for.
//!
//! A network filter takes three objects: two of 16 bytes aligned to 16 and one of 20 bytes. So
//! each page ends up with 64 holes of 12 bytes that none of these can use.

use core::time::Duration;
use std::time::Instant;

use sheaves_percpu::dynamic::{
    Allocator, Config, Counters, Fixed, Growth, Offset, PAGE_BYTES, Policy, V50, V52,
};

use crate::arena::Arena;
use crate::random::Random;

/// Sizes and alignments of what one filter takes.
type Pattern = &'static [(usize, usize)];

const FILTER: Pattern = &[(16, 16), (16, 16), (20, 4)];
const PACKED: Pattern = &[(12, 4), (12, 4), (20, 4)];
const CONTROL: Pattern = &[(16, 4)];

/// What a race came to.
struct Result {
    allocations: usize,
    time: Duration,
    counters: Counters,
    /// Bytes of populated pages, of chunks, of objects and of holes too small for any.
    populated: usize,
    objects: usize,
    unusable: usize,
    chunks: u64,
}

impl Result {
    fn per_allocation(&self, count: u64) -> f64 {
        count as f64 / self.allocations as f64
    }

    fn tested(&self) -> f64 {
        self.per_allocation(self.counters.chunks_tested)
    }

    fn nanoseconds(&self) -> f64 {
        self.time.as_nanos() as f64 / self.allocations as f64
    }
}

struct Race<P: Policy> {
    allocator: Allocator<P, Arena>,
    objects: Vec<Offset>,
    /// What stands for the memory of one slot, to zero objects in; so many slots.
    memory: Vec<u8>,
    slots: usize,
    allocations: usize,
}

impl<P: Policy> Race<P> {
    fn new(unit_bytes: usize, bytes: usize, zeroed_slots: usize) -> Race<P> {
        let chunks_max = bytes.div_ceil(unit_bytes) + 64;
        let config = Config { unit_bytes, chunks_max, head_bytes: 0 };
        Race {
            allocator: Allocator::new(Arena::new(1, 0), config).unwrap(),
            objects: Vec::new(),
            memory: vec![0xFF; zeroed_slots * chunks_max * unit_bytes],
            slots: zeroed_slots,
            allocations: 0,
        }
    }

    fn alloc(&mut self, size: usize, align: usize) -> Offset {
        let offset = self.allocator.alloc(size, align, Growth::Allowed).unwrap();
        if self.allocator.balance_wanted() {
            self.allocator.balance();
        }
        self.allocations += 1;
        let stride = self.memory.len().checked_div(self.slots).unwrap_or(0);
        for slot in 0..self.slots {
            self.memory[slot * stride + offset.bytes()..][..size].fill(0);
        }
        offset
    }

    fn fill(&mut self, pattern: Pattern, count: usize) {
        self.objects.reserve(count * pattern.len());
        for _ in 0..count {
            for (size, align) in pattern {
                let object = self.alloc(*size, *align);
                self.objects.push(object);
            }
        }
    }

    /// Deletes a tenth of the filters and adds as many, ten times over.
    fn churn(&mut self, pattern: Pattern, count: usize) {
        let mut random = Random::new(1);
        for _ in 0..10 {
            let chosen: Vec<usize> = (0..count / 10).map(|_| random.below(count)).collect();
            let mut deleted = Vec::new();
            for filter in chosen {
                let first = filter * pattern.len();
                if self.objects[first].bytes() == usize::MAX {
                    continue;
                }
                for object in &mut self.objects[first..first + pattern.len()] {
                    self.allocator.free(*object).unwrap();
                    *object = Offset::new(usize::MAX);
                }
                deleted.push(first);
            }
            for first in deleted {
                for (index, (size, align)) in pattern.iter().enumerate() {
                    self.objects[first + index] = self.alloc(*size, *align);
                }
            }
        }
    }

    fn result(mut self, before: Counters, allocated: usize, time: Duration) -> Result {
        let statistics = self.allocator.statistics();
        Result {
            allocations: self.allocations - allocated,
            time,
            counters: self.allocator.counters().since(before),
            populated: (statistics.populated_pages - statistics.empty_pages) as usize * PAGE_BYTES,
            objects: self.allocator.allocated_bytes(),
            unusable: self.allocator.unusable_bytes(),
            chunks: statistics.chunks,
        }
    }
}

fn race<P: Policy>(pattern: Pattern, count: usize, unit_bytes: usize, slots: usize) -> Result {
    let mut race = Race::<P>::new(unit_bytes, count * 64, slots);
    let start = Instant::now();
    race.fill(pattern, count);
    let time = start.elapsed();
    race.result(Counters::default(), 0, time)
}

fn churn<P: Policy>(pattern: Pattern, count: usize, unit_bytes: usize, slots: usize) -> Result {
    let mut race = Race::<P>::new(unit_bytes, count * 80, slots);
    race.fill(pattern, count);
    let (before, allocated) = (race.allocator.counters(), race.allocations);
    let start = Instant::now();
    race.churn(pattern, count);
    let time = start.elapsed();
    race.result(before, allocated, time)
}

#[test]
fn chunks_tested_stay_at_one_where_lists_go_by_the_longest_run() {
    let tested = |count| {
        [
            race::<V50>(FILTER, count, 32 << 10, 0).tested(),
            race::<V52>(FILTER, count, 32 << 10, 0).tested(),
            race::<Fixed>(FILTER, count, 32 << 10, 0).tested(),
        ]
    };
    let (few, many) = (tested(4_000), tested(16_000));
    assert!(many[0] > 3.0 * few[0], "V50 grows with the chunks: {few:?}, {many:?}");
    assert!(many[1] <= 1.01 && many[2] <= 1.01, "{many:?}");
}

#[test]
fn the_pattern_without_holes_costs_one_test_everywhere() {
    let tested = [
        race::<V50>(CONTROL, 16_000, 32 << 10, 0).tested(),
        race::<V52>(CONTROL, 16_000, 32 << 10, 0).tested(),
        race::<Fixed>(CONTROL, 16_000, 32 << 10, 0).tested(),
    ];
    assert!(tested.iter().all(|tested| *tested <= 1.01), "{tested:?}");
}

#[test]
fn holes_are_counted_as_unusable() {
    let result = race::<Fixed>(FILTER, 6_144, 32 << 10, 0);
    assert_eq!(result.unusable, 6_144 * 12);
    assert_eq!(result.objects, 6_144 * 52);
    assert_eq!(result.populated, 6_144 * 64);
}

fn print(name: &str, policy: &str, unit_bytes: usize, result: &Result) {
    let counters = &result.counters;
    println!(
        "{name:<18} {policy:<6} {:>4}K {:>8.1} {:>8.3} {:>7.2} {:>7.3} {:>7.3} {:>7.2} {:>7.2} \
         {:>8} {:>6} {:>7.4}",
        unit_bytes >> 10,
        result.nanoseconds(),
        result.tested(),
        result.per_allocation(counters.words_read),
        result.per_allocation(counters.block_refreshes),
        result.per_allocation(counters.chunk_refreshes),
        result.per_allocation(counters.blocks_refreshed),
        result.per_allocation(counters.blocks_searched),
        counters.relegations,
        result.chunks,
        result.populated as f64 / (result.objects + result.unusable) as f64,
    );
}

/// Prints times and counters; in release mode, alone on the machine:
/// `cargo test --release -p sheaves-percpu --test dynamic -- --ignored --nocapture race`.
/// `SHEAVES_DYNAMIC_FILTERS` sets the number of filters.
#[test]
#[ignore = "takes a minute and prints times"]
fn race_of_all_presets() {
    let given = std::env::var("SHEAVES_DYNAMIC_FILTERS").ok();
    let count: usize = given.map_or(1_000_000, |given| given.parse().unwrap());
    println!(
        "{:<18} {:<6} {:>5} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8} {:>6} {:>7}",
        "pattern",
        "policy",
        "unit",
        "ns",
        "tested",
        "words",
        "blk.ref",
        "chk.ref",
        "blocks",
        "walked",
        "relegat.",
        "chunks",
        "memory"
    );
    type Run = fn(Pattern, usize, usize, usize) -> Result;
    let patterns = [("filter", FILTER), ("packed", PACKED), ("control", CONTROL)];
    for unit_bytes in [32 << 10, 64 << 10, 256 << 10] {
        for (name, pattern) in patterns {
            for (slots, zeroed) in [(0, ""), (8, ", zeroed")] {
                let name = format!("{name}{zeroed}");
                let runs: [(&str, Run); 3] =
                    [("V50", race::<V50>), ("V52", race::<V52>), ("FIXED", race::<Fixed>)];
                for (policy, run) in runs {
                    print(&name, policy, unit_bytes, &run(pattern, count, unit_bytes, slots));
                }
            }
        }
        let runs: [(&str, Run); 3] =
            [("V50", churn::<V50>), ("V52", churn::<V52>), ("FIXED", churn::<Fixed>)];
        for (policy, run) in runs {
            let result = run(FILTER, count / 10, unit_bytes, 0);
            print("filter churn", policy, unit_bytes, &result);
        }
    }
}
