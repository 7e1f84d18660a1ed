//! `large`: blocks of 32 KiB to 64 MiB, which allocators get from the kernel or keep.
//!
//! | row | what is timed, each for one block |
//! |---|---|
//! | `untouched/KIB` | allocate and free at once; nothing is written |
//! | `touched/KIB` | the same; a byte of each page is written |
//! | `batch/KIB` | allocate 16 blocks, write a byte of each, free them |
//! | `replace/KIB` | replace a random one of 16 blocks; a byte of each page is written |
//! | `grow` | one block from 32 KiB to 64 MiB, by `realloc` to twice the size; pages as above |
//!
//! `alive-Nt/...` replace random ones of many live blocks, and tell page faults and what stays in
//! memory: see [`alive`]. They are left out where sizes are asked for.
//!
//! `touched-2t` and `replace-2t` are the same with two threads. Blocks that are live at once are
//! fewer where they would take more than 256 MiB, of all threads together. The contenders are
//! `malloc` and the allocators whose `free` finds the size. `malloc` is held against the
//! best of them, row by row and in the mean, which is without the rows `alive`.

mod alive;
mod pages;

use alloc::sync::Arc;
use core::hint::black_box;
use core::ops::Range;
use core::time::Duration;

use crate::contenders::allocators::{self, Allocator, Workload, case_of_malloc};
use crate::harness::{
    Case, Effort, Failure, Judgement, Options, Random, Report, Row, Sampler, Sizes, Table, Workers,
    geometric_mean,
};
use pages::write_pages;

/// Blocks of a set, and their bytes at most, of all threads together.
const LIVE: usize = 16;
const LIVE_BYTES_MAX: usize = 256 << 20;
/// Bytes that are written in a sample, about.
const WRITTEN_BYTES: usize = 32 << 20;
const GROWTH: Range<usize> = 32 << 10..64 << 20;

/// To the best peer, in each row and in the geometric mean.
const ROW_MAX: f64 = 1.1;
const MEAN_MAX: f64 = 0.8;

const SIZES: Sizes = Sizes {
    full: &[32, 64, 128, 256, 512, 1024, 4096, 16_384, 65_536],
    quick: &[32, 256, 4096],
    range: 32..=65_536,
    unit: "KiB",
};

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    sizes: Some(SIZES),
    effort: [
        Effort { rounds_min: 5, time_max: Duration::from_millis(800), ..Effort::SHORT[0] },
        Effort::SHORT[1],
    ],
    finish,
    ..Table::new("large", "blocks of 32 KiB to 64 MiB; --sizes are in KiB", cases)
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Untouched,
    Touched,
    Batch,
    Replace,
    Grow,
}

fn cases(options: &Options) -> Vec<Case> {
    let parts = [
        ("untouched", Work::Untouched, 1),
        ("touched", Work::Touched, 1),
        ("batch", Work::Batch, 1),
        ("replace", Work::Replace, 1),
        ("touched-2t", Work::Touched, 2),
        ("replace-2t", Work::Replace, 2),
    ];
    let of = |(part, work, threads)| {
        let blocks = move |kib: &usize| Blocks { work, bytes: kib << 10, threads };
        let row = move |kib| Row::sized(&format!("large/{part}"), kib);
        options.sizes.iter().map(move |kib| case_of_malloc(row(*kib), ROW_MAX, blocks(kib)))
    };
    let grow = Blocks { work: Work::Grow, bytes: GROWTH.end, threads: 1 };
    let grow = case_of_malloc(Row::new("large/grow".into()), ROW_MAX, grow);
    let has_alive = SIZES.are_usual(&options.sizes);
    let alive = if has_alive { alive::cases(options.quick) } else { Vec::new() };
    parts.into_iter().flat_map(of).chain([grow]).chain(alive).collect()
}

fn finish(report: &mut Report) {
    let judged = report.bars.iter().filter(|bar| bar.at_most.is_some());
    // Rows of many live blocks have bars of their own.
    let judged = judged.filter(|bar| !bar.workload.contains("/alive-"));
    if let Some(mean) = geometric_mean(&judged.map(|bar| bar.ratio).collect::<Vec<_>>()) {
        let mean = Judgement::new("large/mean", "malloc", "best peer", mean, Some(MEAN_MAX));
        report.bars.push(mean);
    }
}

#[derive(Clone, Copy, Debug)]
struct Blocks {
    work: Work,
    bytes: usize,
    threads: usize,
}

impl Blocks {
    /// Blocks of each thread that are live at once in a set.
    fn live(self) -> usize {
        LIVE.min(LIVE_BYTES_MAX / self.threads / self.bytes)
    }

    /// Blocks of each thread in a sample, and those before the clock starts.
    fn counts(self) -> [usize; 2] {
        let written = WRITTEN_BYTES / self.bytes;
        match self.work {
            Work::Untouched => [256, 16],
            Work::Batch => [8 * self.live(), self.live()],
            Work::Touched | Work::Replace => [written.max(2), written.div_ceil(8).max(1)],
            Work::Grow => [1, 1],
        }
    }
}

impl Workload for Blocks {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let (workers, [timed, untimed]) = (Workers::of(self.threads)?, self.counts());
        let allocator = Arc::new(allocator);
        Ok(Box::new(move || {
            let allocator = Arc::clone(&allocator);
            let time = workers.time(untimed, timed, move |worker| {
                let mut set = Set::new(Arc::clone(&allocator), self, worker as u64);
                move |count| set.work(count)
            });
            Ok(vec![time])
        }))
    }
}

struct Set<A: Allocator> {
    allocator: Arc<A>,
    blocks: Blocks,
    live: Vec<*mut u8>,
    random: Random,
}

impl<A: Allocator> Set<A> {
    fn new(allocator: Arc<A>, blocks: Blocks, seed: u64) -> Set<A> {
        allocator.enter_thread();
        let mut set = Set { allocator, blocks, live: Vec::new(), random: Random::new(seed) };
        let live = if blocks.work == Work::Replace { blocks.live() } else { 0 };
        set.live = (0..live).map(|_| set.allocate()).collect();
        set
    }

    #[inline(never)]
    fn work(&mut self, count: usize) {
        match self.blocks.work {
            Work::Untouched | Work::Touched => {
                (0..count).for_each(|_| self.free(self.allocate()));
            }
            Work::Batch => {
                let mut batch = core::mem::take(&mut self.live);
                for _ in 0..count / self.blocks.live() {
                    batch.extend((0..self.blocks.live()).map(|_| self.allocate()));
                    batch.drain(..).for_each(|block| self.free(block));
                }
                self.live = batch;
            }
            Work::Replace => {
                for _ in 0..count {
                    let place = self.random.below(self.live.len() as u32) as usize;
                    self.free(self.live[place]);
                    self.live[place] = self.allocate();
                }
            }
            Work::Grow => (0..count).for_each(|_| self.grow()),
        }
    }

    #[inline]
    fn allocate(&self) -> *mut u8 {
        let block = self.allocator.alloc(black_box(self.blocks.bytes));
        let written = match self.blocks.work {
            Work::Untouched => 0,
            Work::Batch => 1,
            _ => self.blocks.bytes,
        };
        write_pages(block, 0..written);
        block
    }

    fn free(&self, block: *mut u8) {
        // SAFETY: allocated here and freed once; the contenders find the size.
        unsafe { self.allocator.free(block, 0) };
    }

    fn grow(&self) {
        let mut bytes = GROWTH.start;
        let mut block = self.allocator.alloc(black_box(bytes));
        write_pages(block, 0..bytes);
        while bytes < GROWTH.end {
            // SAFETY: the block is live, and the old address is forgotten.
            block = unsafe { self.allocator.realloc(block, black_box(2 * bytes)) };
            write_pages(block, bytes..2 * bytes);
            bytes *= 2;
        }
        self.free(block);
    }
}

impl<A: Allocator> Drop for Set<A> {
    fn drop(&mut self) {
        self.live.iter().for_each(|block| self.free(*block));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_large.rs"]
mod tests;
