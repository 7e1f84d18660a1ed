//! `mixed`: what many programs do at once. Each thread keeps blocks of 8 to 16,000 bytes, whose
//! sizes are log-uniform, and again and again replaces a random one. The first and the last byte of
//! each are written.
//!
//! Rows are `mixed/Nt/LIVE` with 1, 2 and 4 threads, where LIVE is how many blocks each keeps, and
//! `mixed/Nt-25/LIVE` and `mixed/Nt-50/LIVE`, where 25 and 50 % of the blocks are freed by the next
//! thread. They travel in a bounded queue; a thread that finds it full frees what has come first.
//! A row is one replacement, an allocation and a free; `mixed-peak` is what resident memory grew by
//! at the most, `mixed-left` by how much it is larger when all blocks are free again.
//!
//! `mixed/apart/BYTES`, `swapped`, `migrating` and `together` compare two threads with two
//! processes: see [`lines`].
//!
//! The contenders are `malloc` and the [`allocators`] whose `free` finds the size, each in a
//! process of its own for each case.

mod board;
mod lines;

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::LazyLock;

use crate::contenders::allocators::replacing::{Replacing, SHARES, log_uniform, one_of};
use crate::contenders::allocators::{self, Allocator, Workload};
use crate::harness::{
    Case, Effort, Failure, Judge, Measure, Options, Sampler, Sizes, Table, become_threaded,
    peak_bytes, reset_peak, resident_bytes,
};

/// What is measured of a case; each sample lists these in their order.
pub(super) const MEASURES: [Measure; 3] = [
    Measure("", "ns/op", "ns", 1.0),
    Measure("-peak", "bytes", "peak, KiB", 1024.0),
    Measure("-left", "bytes", "left, KiB", 1024.0),
];

const REPLACEMENTS: usize = 50_000;

/// To the best peer: a replacement, and memory, in which glibc is no peer.
const TIME_MAX: f64 = 1.0;
const MEMORY_MAX: f64 = 1.1;

static SIZES: LazyLock<Vec<u16>> = LazyLock::new(|| log_uniform(8.0, 16_000.0));

const LIVE: Sizes = Sizes {
    full: &[500, 5000, 50_000],
    quick: &[5000],
    range: 16..=200_000,
    unit: "blocks of each thread",
};

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    sizes: Some(LIVE),
    effort: [Effort { time_max: Duration::from_millis(1500), ..Effort::LONG[0] }, Effort::LONG[1]],
    remarks: |_| {
        "\nNanoseconds for each replacement; what resident memory grew by at the most, and\n\
         what is left of that when all blocks are free. The times of two threads are\n\
         divided by those of two processes that do the same. All are medians.\n"
            .to_owned()
    },
    ..Table::new(
        "mixed",
        "replace blocks of 8 to 16,000 bytes, some freed elsewhere; --sizes are live blocks",
        cases,
    )
};

fn cases(options: &Options) -> Vec<Case> {
    let loads = [(1, 0), (2, 0), (2, 25), (2, 50), (4, 0), (4, 25), (4, 50)];
    let of = |(threads, percent)| {
        options
            .sizes
            .iter()
            .map(move |live| case(Load { threads, percent, live: *live, sizes: &SIZES }))
    };
    // The last part of `mixed/apart/64` comes as a size that is asked for.
    let bytes = (!LIVE.are_usual(&options.sizes)).then_some(&options.sizes[..]);
    loads.into_iter().flat_map(of).chain(lines::cases(bytes, options.quick)).collect()
}

/// Threads with blocks, of which a share is freed elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) threads: usize,
    pub(super) percent: u32,
    pub(super) live: usize,
    /// Each is as likely as any other.
    pub(super) sizes: &'static [u16],
}

fn case(load: Load) -> Case {
    let Load { threads, percent, live, .. } = load;
    let share = if percent > 0 { format!("-{percent}") } else { String::new() };
    let variant = format!("{threads}t{share}/{live}");
    let rows = Measure::rows(&MEASURES, ("mixed", &variant), &format!("mixed/{variant}"), compare);
    let contenders = allocators::contenders_of_malloc(load).into_iter().map(|contender| {
        let name = contender.mode.map_or(contender.family, |mode| mode.name);
        contender.in_fresh_child(name)
    });
    Case::new(rows, contenders.collect())
}

fn compare(row: &mut Judge<'_>, measure: &str) {
    let is_time = measure.is_empty();
    let peers = allocators::UNSIZED.iter().copied().filter(|name| is_time || *name != "glibc");
    let peers: Vec<_> = peers.collect();
    peers.iter().for_each(|peer| row.ratio("malloc", peer));
    let at_most = if is_time { TIME_MAX } else { MEMORY_MAX };
    if let Some(best) = row.best(&peers) {
        let at_most = Some(at_most).filter(|_| row.has_all_peers(&peers));
        row.hold("malloc", best, at_most);
    }
}

impl Workload for Load {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let replacing = Replacing::<_, true> {
            threads: self.threads,
            live: self.live,
            size_of: move |bits| one_of(self.sizes, bits),
            handed_over: self.percent * SHARES / 100,
        };
        let allocator = Arc::new(allocator);
        // Everything but the blocks is there already.
        become_threaded();
        let before = resident_bytes();
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += self.threads as u64;
            reset_peak()?;
            let time = replacing.time(&allocator, (self.live, REPLACEMENTS), seed)?;
            let grown = |bytes: u64| bytes.saturating_sub(before) as f64;
            // Linux notes peaks late, by counts that may be some pages behind.
            let left = resident_bytes();
            Ok(vec![time, grown(peak_bytes().max(left)), grown(left)])
        }))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_mixed.rs"]
mod tests;
