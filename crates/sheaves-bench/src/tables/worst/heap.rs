//! A heap whose calls are timed one by one.

use core::hint::black_box;
use core::time::Duration;

use super::times::{Clock, Times};
use crate::contenders::allocators::{Allocator, Workload};
use crate::harness::{Failure, Random, Sampler, out_of_memory};

const SIZE_MIN: usize = 500;
const SIZE_MAX: usize = 2000;
/// Statistics are asked for so often, unless that takes longer than this.
const ASKED: usize = 100;
const ASKED_TIME_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Malloc,
    Free,
    Calloc,
    Realloc,
    Statistics,
}

impl Call {
    pub(super) const ALL: [Call; 5] =
        [Call::Malloc, Call::Free, Call::Calloc, Call::Realloc, Call::Statistics];

    /// As rows call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Call::Malloc => "malloc",
            Call::Free => "free",
            Call::Calloc => "calloc",
            Call::Realloc => "realloc",
            Call::Statistics => "statistics",
        }
    }
}

/// Times of the calls of which rows are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    pub(super) bytes: usize,
    pub(super) replaced: usize,
    /// Blocks that are replaced by one from `calloc`.
    pub(super) cleared: usize,
    pub(super) resized: usize,
    /// A sample has the figures of these.
    pub(super) calls: &'static [Call],
}

impl Workload for Course {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += 1;
            let mut heap = Heap::new(&allocator, self.bytes, seed);
            heap.run(self);
            Ok(self.calls.iter().flat_map(|call| heap.times(*call).figures()).collect())
        }))
    }
}

/// The live blocks, and how long calls took.
pub(super) struct Heap<'a, A: Allocator> {
    allocator: &'a A,
    pub(super) blocks: Vec<*mut u8>,
    random: Random,
    times: [Times; Call::ALL.len()],
}

impl<'a, A: Allocator> Heap<'a, A> {
    /// A heap of that size. Filling it is not timed.
    pub(super) fn new(allocator: &'a A, bytes: usize, seed: u64) -> Heap<'a, A> {
        allocator.enter_thread();
        let count = bytes / SIZE_MIN.midpoint(SIZE_MAX);
        let times = core::array::from_fn(|_| Times::new(Clock::Cpu));
        let (blocks, random) = (Vec::with_capacity(count), Random::new(seed));
        let mut heap = Heap { allocator, blocks, random, times };
        for _ in 0..count {
            let size = heap.size();
            heap.blocks.push(checked(allocator.alloc(black_box(size))));
        }
        heap
    }

    pub(super) fn times(&self, call: Call) -> &Times {
        &self.times[call as usize]
    }

    pub(super) fn run(&mut self, course: Course) {
        let count = self.blocks.len();
        self.thin_to(count / 2);
        for _ in 0..count / 8 {
            let block = self.allocate();
            self.blocks.push(block);
        }
        self.thin_to(count / 16);
        if course.calls.contains(&Call::Statistics) {
            self.ask_statistics();
        }
        (0..course.replaced).for_each(|_| self.replace());
        for _ in 0..course.cleared {
            let size = self.size();
            let allocator = self.allocator;
            let block = self.times[Call::Calloc as usize].time(|| allocator.calloc(size));
            self.put(checked(block));
        }
        for _ in 0..course.resized {
            let (place, size) = (self.any(), self.size());
            let (allocator, old) = (self.allocator, self.blocks[place]);
            // SAFETY: live, and replaced by the result.
            let resize = || unsafe { allocator.realloc(old, size) };
            let block = self.times[Call::Realloc as usize].time(resize);
            self.blocks[place] = checked(block);
        }
    }

    /// Frees random blocks until this many are left.
    pub(super) fn thin_to(&mut self, count: usize) {
        while self.blocks.len() > count {
            let place = self.any();
            let block = self.blocks.swap_remove(place);
            self.free(block);
        }
    }

    /// Replaces a random block by another of random size.
    pub(super) fn replace(&mut self) {
        let block = self.allocate();
        self.put(block);
    }

    /// Writes to each block, so that all of the heap is in memory.
    pub(super) fn touch(&mut self) {
        for block in &self.blocks {
            // SAFETY: live, and this heap's; volatile, so that the write is not dropped.
            unsafe { block.write_volatile(14) };
        }
    }

    /// Forgets what was timed, and reads this clock from now on.
    pub(super) fn restart(&mut self, clock: Clock) {
        self.times = core::array::from_fn(|_| Times::new(clock));
    }

    fn ask_statistics(&mut self) {
        let begin = Clock::Wall.now();
        for _ in 0..ASKED {
            let times = &mut self.times[Call::Statistics as usize];
            let start = times.now();
            // A contender without such a call has no figure.
            if !self.allocator.ask_statistics() {
                return;
            }
            times.note_since(start);
            if Clock::Wall.now() - begin > ASKED_TIME_MAX {
                return;
            }
        }
    }

    /// Puts a block in the place of a random one, which is freed.
    fn put(&mut self, block: *mut u8) {
        let place = self.any();
        let old = core::mem::replace(&mut self.blocks[place], block);
        self.free(old);
    }

    /// The place of a random block.
    fn any(&mut self) -> usize {
        self.random.below(self.blocks.len() as u32) as usize
    }

    fn size(&mut self) -> usize {
        SIZE_MIN + self.random.below((SIZE_MAX - SIZE_MIN + 1) as u32) as usize
    }

    fn allocate(&mut self) -> *mut u8 {
        let size = self.size();
        let allocator = self.allocator;
        let allocate = || allocator.alloc(black_box(size));
        checked(self.times[Call::Malloc as usize].time(allocate))
    }

    fn free(&mut self, block: *mut u8) {
        let allocator = self.allocator;
        // SAFETY: live, and given up by the caller; the contenders find the size.
        self.times[Call::Free as usize].time(|| unsafe { allocator.free(block, 0) });
    }
}

impl<A: Allocator> Drop for Heap<'_, A> {
    fn drop(&mut self) {
        for block in &self.blocks {
            // SAFETY: live, and given up here; the contenders find the size.
            unsafe { self.allocator.free(*block, 0) };
        }
    }
}

fn checked(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        out_of_memory();
    }
    block
}
