//! Rows of `mixed` that show what it costs two threads to have one allocator.
//!
//! Two threads, each with 1,024 live blocks of its own, replace a random one again and again and
//! write every byte of it. No block is passed on, so a cache line has two writers only where the
//! allocator gave parts of it to both threads.
//!
//! | row | CPUs of the two threads |
//! |---|---|
//! | `apart/BYTES` | one each from the start |
//! | `swapped/BYTES` | swapped 20 times, 5 ms apart, before they are measured |
//! | `migrating/BYTES` | swapped each 100 ms while they are measured |
//! | `together/BYTES` | both on one for 300 ms, on one each while they are measured |
//!
//! BYTES is the size of all blocks, or `mix`: 4 to 4,096 bytes, 4/u for u uniform in (0,1].
//!
//! A figure is the time of a replacement by the threads, divided by that of two processes with one
//! thread each, which are bound to one CPU each and do the same with the same allocator. 1 is the
//! best: sharing costs nothing. The two sides are measured in short windows in turns, because a
//! machine does not run at one speed for long; a sample is the median of the ratios of neighbours.
//! `mixed-ns` is nanoseconds of a replacement by the threads.
//!
//! The first two CPUs of the affinity mask are used. In a virtual machine they may at times be two
//! threads of one core, which has one cache: then a shared line costs nothing, and all figures are
//! near 1. The rows need two CPUs, and no other load: it would slow one side more than the other.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::LazyLock;
use std::thread::JoinHandle;
use std::time::Instant;

use super::board::{Mapping, Side, WORKERS};
use crate::contenders::allocators::replacing::one_of;
use crate::contenders::allocators::{self, Allocator, Workload};
use crate::harness::{
    Case, Contender, Failure, Forked, Judge, Measure, Random, Sample, Sampler, allowed_cpus,
    distinct, out_of_memory, per_operation, pin_to, scale, summarize,
};

/// What each sample lists, in this order.
const MEASURES: [Measure; 2] =
    [Measure("", "times", "to processes", 1.0), Measure("-ns", "ns/op", "ns", 1.0)];

/// To two processes: while threads stay where they are, and while they migrate.
const STAYING_MAX: f64 = 1.0 / 0.92;
const MIGRATING_MAX: f64 = 1.0 / 0.85;
/// To the best peer.
const TIME_MAX: f64 = 1.05;

/// Blocks of each worker.
const LIVE: usize = 1024;
/// Replacements between two looks at the board.
const BATCH: u64 = 256;
/// Windows of each side in a sample; odd, so that the median is one of them.
const WINDOWS: usize = 11;
const WINDOW: Duration = Duration::from_millis(30);
/// From the start of a turn to that of its window.
const WARM_UP: Duration = Duration::from_millis(4);
const MIGRATION_EVERY: Duration = Duration::from_millis(100);
const SWAPS: usize = 20;
const SWAP_EVERY: Duration = Duration::from_millis(5);
const TOGETHER_FOR: Duration = Duration::from_millis(300);

/// The sizes of `mix`, of which each is as likely as any other.
static MIX: LazyLock<Vec<u16>> = LazyLock::new(|| {
    let steps = 8192_u32;
    (1..=steps).map(|step| (4 * steps / step).min(4096) as u16).collect()
});

const SIZES: [Size; 6] =
    [Size::All(16), Size::All(32), Size::All(48), Size::All(64), Size::All(128), Size::Mix];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    All(usize),
    Mix,
}

impl Size {
    fn name(self) -> String {
        match self {
            Size::All(bytes) => bytes.to_string(),
            Size::Mix => "mix".to_owned(),
        }
    }

    #[inline]
    fn of(self, bits: u32) -> usize {
        match self {
            Size::All(bytes) => bytes,
            Size::Mix => one_of(&MIX, bits),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Apart,
    Swapped,
    Migrating,
    Together,
}

#[derive(Clone, Copy, Debug)]
struct Lines {
    course: Course,
    size: Size,
}

/// The cases with blocks of these bytes; none: of all sizes, or of two for a first look.
pub(super) fn cases(bytes: Option<&[usize]>, is_quick: bool) -> Vec<Case> {
    let is_asked = |size: &Size| match (size, bytes) {
        (Size::All(bytes), Some(asked)) => asked.contains(bytes),
        (Size::Mix, Some(_)) => false,
        (size, None) => !is_quick || [Size::All(16), Size::Mix].contains(size),
    };
    let courses = [
        ("apart", Course::Apart),
        ("swapped", Course::Swapped),
        ("migrating", Course::Migrating),
        ("together", Course::Together),
    ];
    let of = |(part, course)| {
        let sizes = SIZES.into_iter().filter(is_asked);
        sizes.map(move |size| case(part, Lines { course, size }))
    };
    courses.into_iter().flat_map(of).collect()
}

fn case(part: &str, lines: Lines) -> Case {
    let variant = format!("{part}/{}", lines.size.name());
    let compare = move |row: &mut Judge<'_>, measure: &str| compare(row, measure, lines.course);
    let rows = Measure::rows(&MEASURES, ("mixed", &variant), &format!("mixed/{variant}"), compare);
    let contenders = allocators::contenders_of_malloc(lines);
    if allowed_cpus().len() < WORKERS {
        let families = distinct(contenders.iter().map(|contender| contender.family));
        let left_out = |family| Contender::left_out(family, "this needs two CPUs".to_owned());
        return Case::new(rows, families.into_iter().map(left_out).collect());
    }
    let contenders = contenders.into_iter().map(|contender| {
        let name = contender.mode.map_or(contender.family, |mode| mode.name);
        contender.in_fresh_child(name)
    });
    Case::new(rows, contenders.collect())
}

fn compare(row: &mut Judge<'_>, measure: &str, course: Course) {
    let peers = allocators::UNSIZED;
    peers.iter().for_each(|peer| row.ratio("malloc", peer));
    if measure.is_empty() {
        let at_most = if course == Course::Migrating { MIGRATING_MAX } else { STAYING_MAX };
        row.limit("malloc", "two processes", row.median("malloc"), at_most);
    } else if let Some(best) = row.best(peers) {
        let at_most = Some(TIME_MAX).filter(|_| row.has_all_peers(peers));
        row.hold("malloc", best, at_most);
    }
}

impl Workload for Lines {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let [first, second, ..] = allowed_cpus()[..] else {
            return Err(Failure::run("two threads and two processes need two CPUs"));
        };
        LazyLock::force(&MIX);
        let (allocator, board) = (Arc::new(allocator), Arc::new(Mapping::new()?));
        let mut sides = Sides {
            course: self.course,
            cpus: [first, second],
            board: Arc::clone(&board),
            threads: Vec::new(),
            _processes: Vec::new(),
        };
        sides.set_cpus(Side::Threads, sides.cpus);
        sides.set_cpus(Side::Processes, sides.cpus);
        // The processes first: a child has the calling thread alone.
        for worker in 0..WORKERS {
            let work = || work(&*allocator, &board, (Side::Processes, worker), self.size);
            sides._processes.push(Forked::start(work)?);
        }
        for worker in 0..WORKERS {
            let (allocator, board) = (Arc::clone(&allocator), Arc::clone(&board));
            let work = move || work(&*allocator, &board, (Side::Threads, worker), self.size);
            let thread = std::thread::Builder::new().spawn(work).map_err(Failure::no_thread)?;
            sides.threads.push(thread);
        }
        Ok(Box::new(sides))
    }
}

/// The two threads and the two processes, which sleep between samples.
struct Sides {
    course: Course,
    cpus: [usize; WORKERS],
    board: Arc<Mapping>,
    threads: Vec<JoinHandle<()>>,
    /// Kept until they are to end.
    _processes: Vec<Forked>,
}

impl Sample for Sides {
    fn sample(&mut self) -> Result<Vec<f64>, Failure> {
        self.prepare();
        let (mut ratios, mut times) = (Vec::new(), Vec::new());
        for window in 0..WINDOWS {
            let mut sides = [Side::Threads, Side::Processes];
            sides.rotate_left(window % 2);
            let mut measured = sides.map(|side| self.window(side));
            measured.rotate_left(window % 2);
            let [by_threads, by_processes] = measured;
            ratios.push(by_threads / by_processes);
            times.push(by_threads);
        }
        self.board.pause();
        Ok(vec![summarize(&ratios).median, summarize(&times).median])
    }
}

impl Sides {
    /// What comes before the threads are measured.
    fn prepare(&mut self) {
        let sleep = std::thread::sleep;
        self.board.give_turn(Side::Threads);
        match self.course {
            Course::Apart | Course::Migrating => {}
            Course::Swapped => {
                for _ in 0..SWAPS {
                    self.swap();
                    sleep(SWAP_EVERY);
                }
            }
            Course::Together => {
                self.set_cpus(Side::Threads, [self.cpus[0]; WORKERS]);
                sleep(TOGETHER_FOR);
                self.set_cpus(Side::Threads, self.cpus);
            }
        }
    }

    /// Nanoseconds of a replacement in a window of this side.
    fn window(&mut self, side: Side) -> f64 {
        self.board.give_turn(side);
        std::thread::sleep(WARM_UP);
        let migrates = self.course == Course::Migrating && side == Side::Threads;
        if migrates {
            self.swap();
        }
        let (start, before) = (Instant::now(), self.board.done(side));
        std::thread::sleep(if migrates { MIGRATION_EVERY } else { WINDOW });
        let (time, done) = (start.elapsed(), self.board.done(side) - before);
        per_operation(time * WORKERS as u32, done.max(1) as usize)
    }

    fn swap(&mut self) {
        self.cpus.reverse();
        self.set_cpus(Side::Threads, self.cpus);
    }

    fn set_cpus(&self, side: Side, cpus: [usize; WORKERS]) {
        for (worker, cpu) in cpus.into_iter().enumerate() {
            self.board.set_cpu(side, worker, cpu);
        }
    }
}

impl Drop for Sides {
    fn drop(&mut self) {
        self.board.end();
        for thread in self.threads.drain(..) {
            // It has ended by a panic at worst, which was printed.
            let _ = thread.join();
        }
    }
}

/// What a worker does until the end: replaces blocks whenever it is its side's turn.
fn work<A: Allocator>(allocator: &A, board: &Mapping, (side, worker): (Side, usize), size: Size) {
    let mut cpu = board.cpu(side, worker);
    pin_to(cpu);
    allocator.enter_thread();
    let mut random = Random::new(worker as u64 + 1);
    // On the stack, which no other thread writes to.
    let mut blocks = [core::ptr::null_mut(); LIVE];
    blocks.fill_with(|| allocate(allocator, size.of((random.next() >> 32) as u32)));
    while board.wait_for_turn(side) {
        let asked = board.cpu(side, worker);
        if asked != cpu {
            cpu = asked;
            pin_to(cpu);
        }
        replace(allocator, &mut blocks, &mut random, size);
        board.add(side, worker, BATCH);
    }
    for block in blocks {
        // SAFETY: live, and given up here; the contenders find the size.
        unsafe { allocator.free(block, 0) };
    }
}

#[inline(never)]
fn replace<A: Allocator>(
    allocator: &A,
    blocks: &mut [*mut u8; LIVE],
    random: &mut Random,
    size: Size,
) {
    for _ in 0..BATCH {
        let bits = random.next();
        let block = &mut blocks[scale(bits as u32, LIVE as u32) as usize];
        // SAFETY: live, and replaced at once; the contenders find the size.
        unsafe { allocator.free(*block, 0) };
        *block = allocate(allocator, size.of((bits >> 32) as u32));
    }
}

/// A block of which every byte is written.
#[inline]
fn allocate<A: Allocator>(allocator: &A, bytes: usize) -> *mut u8 {
    let block = allocator.alloc(bytes);
    if block.is_null() {
        out_of_memory();
    }
    for offset in 0..bytes {
        // SAFETY: in the block; volatile, so that each byte is a write of its own.
        unsafe { block.wrapping_add(offset).write_volatile(offset as u8) };
    }
    block
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_mixed_lines.rs"]
mod tests;
