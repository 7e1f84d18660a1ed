//! Kinds of programs, of each of which a profile says what it has allocated, and where.

use core::alloc::{GlobalAlloc as _, Layout};
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use std::collections::VecDeque;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use sheaves::heap::{self, profile};
use sheaves::raw::{Cache, Options};
use sheaves::{Sheaves, rcu};
use sheaves_slab::internal::checking;

use crate::alone;
use crate::places::{RATE, aligned, by_layout, check, kept, of_cache, resized, scratch, zeroed};

/// Bytes that a program allocates: thousands of samples.
const BYTES: usize = 6000 * RATE;
/// The size where there is one.
const SIZE: usize = 64;
const COUNT: usize = BYTES / SIZE;
const LAYOUT: Layout = Layout::new::<[u64; SIZE / 8]>();

fn free(block: *mut u8) {
    // SAFETY: from this heap, and not used after.
    unsafe { heap::free(block) };
}

fn free_by_layout(block: *mut u8) {
    // SAFETY: from this heap, with this layout, and not used after.
    unsafe { Sheaves.dealloc(block, LAYOUT) };
}

fn lifo() {
    (0..COUNT).for_each(|_| free(scratch(SIZE)));
}

fn fifo() {
    let mut queue = VecDeque::from([null_mut(); 500]);
    for _ in 0..COUNT {
        queue.push_back(scratch(SIZE));
        free(queue.pop_front().unwrap());
    }
    queue.into_iter().for_each(free);
}

/// Replaces one of many blocks by chance, with a brief one in between.
fn replaced_by(
    blocks: usize,
    alloc: impl Fn() -> *mut u8,
    brief: impl Fn(),
    free: impl Fn(*mut u8),
) {
    let mut seed = 7_u64;
    let mut all: Vec<_> = (0..blocks).map(|_| alloc()).collect();
    for _ in 0..COUNT / 2 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = &mut all[(seed >> 33) as usize % blocks];
        free(*place);
        brief();
        *place = alloc();
    }
    all.into_iter().for_each(free);
}

fn replaced() {
    replaced_by(3000, || kept(SIZE), || free(scratch(SIZE)), free);
}

fn in_batches() {
    for count in (1..300).cycle().take(COUNT / 150) {
        let blocks: Vec<_> = (0..count).map(|_| scratch(SIZE)).collect();
        blocks.into_iter().rev().for_each(free);
    }
}

fn of_many_sizes() {
    for size in (16..2000).step_by(40).cycle().take(BYTES / 1000) {
        let (one, two) = (scratch(size), kept(2000 - size));
        [one, two].into_iter().for_each(free);
    }
}

fn lifo_by_layout() {
    (0..COUNT).for_each(|_| free_by_layout(by_layout(LAYOUT)));
}

fn replaced_by_layout() {
    let brief = || free_by_layout(scratch(SIZE));
    replaced_by(3000, || by_layout(LAYOUT), brief, free_by_layout);
}

fn with_cache(program: impl FnOnce(&Cache)) {
    let cache = Cache::new("profile-kinds", LAYOUT, Options::default()).unwrap();
    program(&cache);
    cache.destroy().expect("every object is back");
}

fn free_to(cache: &Cache, object: NonNull<u8>) {
    // SAFETY: from this cache, and not used after.
    unsafe { cache.free(object) };
}

fn lifo_of_cache() {
    with_cache(|cache| (0..COUNT).for_each(|_| free_to(cache, of_cache(cache))));
}

fn fifo_of_cache() {
    with_cache(|cache| {
        let mut queue = VecDeque::new();
        for _ in 0..COUNT {
            queue.push_back(of_cache(cache));
            if queue.len() == 500 {
                free_to(cache, queue.pop_front().unwrap());
            }
        }
        queue.into_iter().for_each(|object| free_to(cache, object));
    });
}

/// With bulk operations in between, which nothing counts.
fn beside_bulk() {
    with_cache(|cache| {
        let mut out = [MaybeUninit::uninit(); 40];
        for _ in 0..COUNT / 4 {
            let objects = [(); 4].map(|()| of_cache(cache));
            let count = cache.alloc_bulk(&mut out);
            // SAFETY: that many were filled.
            let bulk: Vec<_> =
                out[..count].iter().map(|one| unsafe { one.assume_init() }).collect();
            // SAFETY: from this cache, not used after, all different.
            unsafe { cache.free_bulk(&bulk) };
            objects.into_iter().for_each(|object| free_to(cache, object));
        }
    });
}

fn in_threads() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..COUNT / 4).for_each(|_| free(scratch(SIZE))));
        }
    });
}

fn freed_in_another_thread() {
    let (sender, receiver) = mpsc::sync_channel::<Vec<usize>>(4);
    thread::scope(|scope| {
        scope.spawn(|| {
            for blocks in receiver {
                blocks
                    .into_iter()
                    .for_each(|block| free(core::ptr::with_exposed_provenance_mut(block)));
            }
        });
        for _ in 0..COUNT / 100 {
            let blocks = (0..100).map(|_| scratch(SIZE).expose_provenance()).collect();
            sender.send(blocks).unwrap();
        }
        drop(sender);
    });
}

fn zeroed_and_aligned() {
    for _ in 0..COUNT / 2 {
        [zeroed(SIZE), aligned(64, 2 * SIZE)].into_iter().for_each(free);
    }
    (0..BYTES / 4096).for_each(|_| free(aligned(4096, 4096)));
}

fn growing() {
    for _ in 0..BYTES / 4096 {
        let block = (7..=12).fold(scratch(64), |block, shift| resized(block, 1 << shift));
        free(block);
    }
}

fn deferred() {
    for _ in 0..COUNT {
        // SAFETY: from this heap, and not used after.
        unsafe { heap::free_rcu(scratch(SIZE)) };
    }
    rcu::defer::barrier().unwrap();
}

fn kept_beside_brief() {
    let all: Vec<_> = (0..COUNT / 4)
        .map(|_| {
            (0..4).for_each(|_| free(scratch(SIZE)));
            kept(SIZE)
        })
        .collect();
    all.into_iter().for_each(free);
}

/// Blocks of middle size and large ones. Nearly each is a sample.
fn big() {
    for _ in 0..2000 {
        [scratch(40_000), kept(200_000)].into_iter().for_each(free);
    }
    (0..500).for_each(|_| free(scratch(3 << 20)));
}

const KINDS: [(&str, fn()); 17] = [
    ("lifo", lifo),
    ("fifo", fifo),
    ("replaced", replaced),
    ("in_batches", in_batches),
    ("of_many_sizes", of_many_sizes),
    ("lifo_by_layout", lifo_by_layout),
    ("replaced_by_layout", replaced_by_layout),
    ("lifo_of_cache", lifo_of_cache),
    ("fifo_of_cache", fifo_of_cache),
    ("beside_bulk", beside_bulk),
    ("in_threads", in_threads),
    ("freed_in_another_thread", freed_in_another_thread),
    ("zeroed_and_aligned", zeroed_and_aligned),
    ("growing", growing),
    ("deferred", deferred),
    ("kept_beside_brief", kept_beside_brief),
    ("big", big),
];

#[test]
fn each_kind_of_program_has_what_it_allocated() {
    let _alone = alone();
    KINDS.iter().for_each(|(name, program)| check(name, program));
}

/// Blocks from before a profile are freed during it, and allocated again at once.
#[test]
fn what_was_there_before_changes_nothing() {
    let _alone = alone();
    let cache = Cache::new("profile-before", LAYOUT, Options::default()).unwrap();
    let blocks: Vec<_> = (0..100_000).map(|_| scratch(SIZE)).collect();
    let objects: Vec<_> = (0..100_000).map(|_| of_cache(&cache)).collect();
    check("from before", || {
        for (block, object) in blocks.into_iter().zip(objects) {
            free(block);
            (0..3).for_each(|_| free(scratch(SIZE)));
            free_to(&cache, object);
            (0..3).for_each(|_| free_to(&cache, of_cache(&cache)));
        }
    });
    cache.destroy().expect("every object is back");
}

/// Many processes with few samples each. Each prints what its profile says.
#[test]
fn processes_have_no_bias_in_common() {
    const CHILD: &str = "SHEAVES_TEST_PROFILED";
    const PROCESSES: usize = 60;
    const SAMPLES: usize = 60;
    let blocks = SAMPLES * RATE / SIZE;
    if std::env::var_os(CHILD).is_some() {
        assert!(profile::start(RATE));
        (0..blocks).for_each(|_| free(heap::malloc(SIZE)));
        let mut text = String::new();
        profile::dump(&mut text).unwrap();
        print!("{text}");
        return;
    }
    let estimate = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = "kinds::processes_have_no_bias_in_common";
        command.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:#?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sites = text.lines().filter(|line| line.contains(" malloc malloc-64 "));
        sites.map(|line| line.split(' ').nth(7).unwrap().parse::<usize>().unwrap()).sum::<usize>()
    };
    let found: usize = (0..PROCESSES).map(|_| estimate()).sum();
    let (found, expected) = (found as f64, (PROCESSES * blocks) as f64);
    let bound = expected * (0.05 + 3.0 / ((PROCESSES * SAMPLES) as f64).sqrt());
    assert!((found - expected).abs() <= bound, "{found}, not {expected} +- {bound}");
}

/// Again where paths and engines are others; each process compares what is in effect.
#[test]
fn in_other_configurations() {
    const EXPECT: &str = "SHEAVES_EXPECT";
    if let Ok(expected) = std::env::var(EXPECT) {
        free(heap::malloc(SIZE));
        let (engine, slot) = heap::report::engine_names();
        let hardened = if checking::is_hardened() { " hardened" } else { "" };
        return assert!(format!("{engine} {slot}{hardened}").contains(&expected));
    }
    let configurations = [
        ("SHEAVES_ENGINE", "rseq-cpu", "rseq cpu"),
        ("SHEAVES_ENGINE", "portable", "portable virtual"),
        ("SHEAVES_HARDEN", "1", "hardened"),
    ];
    for (name, value, expected) in configurations {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["kinds::each", "kinds::what", "kinds::in_other"]);
        command.envs([(EXPECT, expected), ("SHEAVES_SLOTS", "64"), (name, value)]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}={value}: {output:#?}");
    }
}
