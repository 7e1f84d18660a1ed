//! A million blocks are freed twice beside four threads that allocate: each second free is found,
//! and no block has two owners at a time. Findings are counted here in place of ending the process.
//!
//! A second free that comes after the block is in use again cannot be told from a first one. So the
//! other threads free at most [`BUDGET`] blocks between a first and a second free: fewer than what
//! the quarantine of a size class holds.
//!
//! What a free has checked and cleared when it returns, the last tests see at once.

use core::alloc::Layout;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard};
use std::thread;

use sheaves_heap::{
    alloc_layout, check_freed, dealloc_layout, free, free_rcu_layout, malloc, realloc, slow, trim,
    usable_size, usable_size_of,
};
use sheaves_percpu::internal::Sheaf;
use sheaves_percpu::slot_count;
use sheaves_rcu::defer;
use sheaves_slab::internal::by_id::is_freed;
use sheaves_slab::internal::chunk::footprint;
use sheaves_slab::internal::{FINDINGS, checking};
use sheaves_slab::stats::{CacheStats, all};
use sheaves_sys::topology::Affinity;

/// How many errors were found, if they are counted.
fn findings() -> usize {
    FINDINGS.load(Ordering::Relaxed).saturating_sub(1)
}

const DOUBLE_FREES: usize = 1_000_000;
const THREADS: u64 = 4;
/// Blocks that are freed twice in one batch.
const BATCH: usize = 50;
/// A quarantine has 256 blocks at least, of which those of the oldest sheaf leave: so 129 are freed
/// between two frees of a block. Half of what is allocated or freed are frees.
const BUDGET: i64 = 100;
/// The most blocks that a thread has.
const HAND_MAX: usize = 300;
/// The sizes of one class.
const SIZES: [usize; 3] = [33, 40, 48];

/// A generator of random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % end
    }
}

/// A block with its owner's mark in its first word.
struct Own(*mut u8, u64);

impl Own {
    fn new(random: &mut Random, mark: u64) -> Own {
        let own = Own(malloc(SIZES[random.below(SIZES.len())]), mark);
        assert_eq!(own.swap(mark), 0, "allocated twice, or not cleared");
        own
    }

    fn swap(&self, mark: u64) -> u64 {
        // SAFETY: blocks are aligned and larger, and all access to their first words is atomic.
        unsafe { AtomicU64::from_ptr(self.0.cast()) }.swap(mark, Ordering::Relaxed)
    }

    /// Frees the block and returns its address.
    fn free(self) -> *mut u8 {
        assert_eq!(self.swap(self.1), self.1, "another owner has written to it");
        // SAFETY: from this heap.
        unsafe { free(self.0) };
        self.0
    }
}

/// Ends the other threads, also when a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Allocates and frees until the end, as far as the budget goes.
fn churn(number: u64, budget: &AtomicI64, is_over: &AtomicBool) {
    let mut random = Random(number << 32 | 1);
    let mut hand = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if budget.fetch_sub(1, Ordering::Relaxed) <= 0 {
            thread::yield_now();
        } else if hand.len() < HAND_MAX && random.below(2) == 0 {
            hand.push(Own::new(&mut random, number));
        } else if !hand.is_empty() {
            hand.swap_remove(random.below(hand.len())).free();
        }
    }
    hand.into_iter().for_each(|own| {
        own.free();
    });
}

/// Frees a batch of blocks, and then once more in another order.
fn free_twice(random: &mut Random, mark: u64) {
    let blocks: Vec<_> = (0..BATCH).map(|_| Own::new(random, mark)).collect();
    let mut freed: Vec<_> = blocks.into_iter().map(Own::free).collect();
    while !freed.is_empty() {
        let block = freed.swap_remove(random.below(freed.len()));
        // SAFETY: bad input on purpose: it was freed before.
        unsafe { free(block) };
    }
}

/// A first free that waits in the sheaf of a slot that is not used any more, and a second one on
/// another CPU.
fn frees_on_two_cpus_meet() {
    let block = malloc(40).expose_provenance();
    let free_on = move |cpu| {
        // Where there is no such CPU, both frees are on the same one.
        let _is_bound = Affinity::only(cpu).is_some_and(|one| one.bind());
        // SAFETY: from this heap, the first time; the second is bad input on purpose.
        unsafe { free(with_exposed_provenance_mut(block)) };
    };
    thread::spawn(move || free_on(0)).join().unwrap();
    assert_eq!(findings(), 0);
    thread::spawn(move || free_on(1)).join().unwrap();
    assert_eq!(findings(), 1);
    FINDINGS.store(1, Ordering::Relaxed);
}

/// Bytes of objects in the quarantines of all caches.
fn waiting_bytes() -> usize {
    all().map(|(_, stats)| stats.objects_in_depot * stats.stride_bytes).sum()
}

/// However many sizes a program frees, the quarantines of all of them together have a bound. They
/// keep a part in any case: a tick takes what is more than the least.
fn many_sizes_wait_no_longer_than_a_few() {
    let free_much = |sizes: &mut dyn Iterator<Item = usize>| {
        for size in sizes {
            let blocks: Vec<_> = (0..1 + (600 << 10) / size).map(|_| malloc(size)).collect();
            for block in blocks {
                // SAFETY: from this heap.
                unsafe { free(block) };
            }
        }
        waiting_bytes()
    };
    trim(0);
    assert_eq!(waiting_bytes(), 0);
    let few_bytes = free_much(&mut (16..256).step_by(16));
    assert!((256 << 10..5 << 20).contains(&few_bytes), "{few_bytes}");
    let many_bytes = free_much(&mut (16..30_000).step_by(80));
    assert!((1 << 20..5 << 20).contains(&many_bytes), "{many_bytes}");
    // From then on most allocate what they have freed, without slabs.
    let sum = |of: fn(&CacheStats) -> u64| all().map(|(_, stats)| of(&stats)).sum::<u64>();
    let before = sum(|stats| stats.refills);
    const PAIRS: usize = 40_000;
    for place in 0..PAIRS {
        // SAFETY: from this heap.
        unsafe { free(malloc(16 + place * 80 % 30_000)) };
    }
    let refills = sum(|stats| stats.refills) - before;
    // Where slots are many, a sheaf has room for few objects: a tenth of them comes from slabs.
    let sheaf_objects = (2 * Sheaf::OBJECTS_MAX / slot_count()).max(1);
    let refills_max = (PAIRS / 10 / sheaf_objects).max(1000) as u64;
    assert!(refills < refills_max, "{refills} of {refills_max}");
    trim(0);
}

/// Two threads free the same blocks at the same time: of each pair of frees one is the first.
fn frees_at_the_same_time_meet() {
    const ROUNDS: usize = 200;
    let blocks: Vec<_> = (0..ROUNDS * BATCH).map(|_| malloc(40).expose_provenance()).collect();
    let (blocks, start) = (&blocks, &Barrier::new(2));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                for batch in blocks.chunks(BATCH) {
                    start.wait();
                    for block in batch {
                        // SAFETY: from this heap, for one thread; bad input on purpose for one.
                        unsafe { free(with_exposed_provenance_mut(*block)) };
                    }
                }
            });
        }
    });
    assert_eq!(findings(), ROUNDS * BATCH);
    FINDINGS.store(1, Ordering::Relaxed);
}

/// A block is cleared, known as free, and found when it is freed again, before anything else is
/// allocated or freed; and one thread is enough.
fn frees_are_complete_when_they_return() {
    // From level 2 on the last one is inaccessible.
    let sizes = [1, 24, 64, 200, 1000, 5000, 30_000, 200_000];
    let count = sizes.len() - usize::from(checking::is_exact());
    for (index, size) in sizes.into_iter().take(count).enumerate() {
        let block = malloc(size);
        // SAFETY: from this heap.
        let usable = unsafe { usable_size(block) };
        // SAFETY: the block has that size.
        unsafe { block.write_bytes(0xa5, usable) };
        // SAFETY: from this heap.
        unsafe { free(block) };
        // SAFETY: such blocks stay mapped; that they are read is what is tested.
        let is_clear =
            (0..usable).all(|place| unsafe { block.wrapping_add(place).read_volatile() } == 0);
        assert!(is_clear, "{size}");
        assert!(is_freed(block.addr()), "{size}");
        // SAFETY: bad input on purpose.
        unsafe { free(block) };
        assert_eq!(findings(), index + 1, "{size}");
    }
    FINDINGS.store(1, Ordering::Relaxed);
}

/// At level 2 a byte that is written to a freed block is found wherever it is.
fn all_bytes_are_checked_at_level_2() {
    const BYTES: usize = 5000;
    if !checking::is_exact() {
        return;
    }
    FINDINGS.store(1, Ordering::Relaxed);
    // In quarantine, from which as many others push them.
    let blocks: Vec<_> = (0..20).map(|_| malloc(BYTES)).collect();
    for (index, block) in blocks.into_iter().enumerate() {
        // SAFETY: from this heap.
        unsafe { free(block) };
        // SAFETY: such blocks stay mapped; the write is on purpose.
        unsafe { block.wrapping_add(200 * index).write(1) };
    }
    for _ in 0..2000 {
        // SAFETY: from this heap.
        unsafe { free(malloc(BYTES)) };
    }
    assert_eq!(findings(), 20);
    FINDINGS.store(1, Ordering::Relaxed);
}

/// One block that is in use at a time takes no more memory than the quarantine of its class has.
fn pairs_take_no_more_than_a_quarantine() {
    let before_bytes = footprint().used_bytes;
    for _ in 0..1_000_000 {
        // SAFETY: from this heap.
        unsafe { free(malloc(64)) };
    }
    let grown_bytes = footprint().used_bytes.saturating_sub(before_bytes);
    assert!(grown_bytes <= 1 << 20, "{grown_bytes}");
}

/// What a trim takes out of a long quarantine goes in pieces: no lock is held for all of it.
fn a_trim_returns_a_long_quarantine_in_pieces() {
    // More sheaves than may be flushed at one hold of a lock.
    const BLOCKS: usize = 70_000;
    // More may wait once they were needed again.
    for _ in 0..4 {
        let blocks: Vec<_> = (0..BLOCKS).map(|_| malloc(8)).collect();
        // SAFETY: from this heap.
        blocks.into_iter().for_each(|block| unsafe { free(block) });
    }
    let waiting = || all().map(|(_, stats)| stats.objects_in_depot).sum::<usize>();
    assert!(waiting() > 50_000, "{}", waiting());
    trim(0);
    assert_eq!(waiting(), 0);
}

/// The fast path and the slow one take blocks of the same class: a `delete` checks its size by it.
fn both_paths_serve_a_size_alike() {
    for size in 0..40_000 {
        let [fast, slow] = [malloc(size), slow::malloc(size)];
        // SAFETY: from this heap.
        let usable = [fast, slow].map(|block| unsafe { usable_size(block) });
        assert!(usable[0] == usable[1] && usable[0] >= size, "{size}: {usable:?}");
        for block in [fast, slow] {
            slow::check_size(block, size, 0, false);
            // SAFETY: from this heap.
            unsafe { free(block) };
        }
    }
}

/// A block that another one of its class would replace is resized where it is. At level 2 none is:
/// its size is recorded.
fn blocks_stay_in_their_class() {
    for size in 1..1000 {
        let block = malloc(size);
        // SAFETY: from this heap; here and below.
        let other = unsafe { realloc(block, size + 1) };
        let is_same = usable_size_of(size, 16) == usable_size_of(size + 1, 16);
        assert!(other == block || !is_same, "{size}");
        // SAFETY: as above.
        unsafe { free(other) };
    }
}

/// Callers with a layout know the classes of the default mode only.
fn layouts_are_freed_by_their_owners() {
    for align in [1, 16, 64, 512, 4096] {
        for size in (1..3000).step_by(7).chain([32 << 10, 100_000, 300_000, 2 << 20]) {
            let layout = Layout::from_size_align(size, align).unwrap();
            for is_deferred in [false, true] {
                let block = alloc_layout(layout);
                assert!(block.addr().is_multiple_of(align));
                // SAFETY: the block has that size.
                unsafe { block.write_bytes(0xa5, size) };
                if is_deferred {
                    // SAFETY: from this heap, and without readers.
                    unsafe { free_rcu_layout(block, layout) };
                } else {
                    // SAFETY: from this heap.
                    unsafe { dealloc_layout(block, layout) };
                }
            }
        }
    }
    defer::barrier().unwrap();
    trim(0);
}

/// The level of the tests; 1 where there is no such variable.
const LEVEL: &str = "SHEAVES_TEST_LEVEL";

/// All of these tests again.
#[test]
fn at_level_2() {
    if std::env::var_os(LEVEL).is_none() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.env(LEVEL, "2").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Makes this process a hardened one; one test at a time.
fn harden() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap();
    let level = std::env::var(LEVEL).map_or(1, |level| level.parse().unwrap());
    sheaves_sys::options::HARDEN.set(level);
    // SAFETY: from this heap.
    unsafe { free(malloc(1)) };
    assert!(checking::is_hardened());
    alone
}

#[test]
fn both_paths_and_layouts() {
    let _alone = harden();
    both_paths_serve_a_size_alike();
    blocks_stay_in_their_class();
    layouts_are_freed_by_their_owners();
    all_bytes_are_checked_at_level_2();
    pairs_take_no_more_than_a_quarantine();
    a_trim_returns_a_long_quarantine_in_pieces();
    many_sizes_wait_no_longer_than_a_few();
    check_freed();
}

#[test]
fn a_million_double_frees_are_found() {
    let _alone = harden();
    FINDINGS.store(1, Ordering::Relaxed);
    frees_are_complete_when_they_return();
    frees_on_two_cpus_meet();
    frees_at_the_same_time_meet();
    let (budget, is_over) = (&AtomicI64::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        for number in 1..=THREADS {
            scope.spawn(move || churn(number, budget, is_over));
        }
        let _end = End(is_over);
        let mut random = Random(1);
        for _ in 0..DOUBLE_FREES / BATCH {
            budget.store(BUDGET, Ordering::Relaxed);
            free_twice(&mut random, THREADS + 1);
        }
    });
    check_freed();
    assert_eq!(findings(), DOUBLE_FREES);
}
