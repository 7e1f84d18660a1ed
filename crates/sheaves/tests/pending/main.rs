//! Pending objects, deferred and not yet freed: their number, their age, the wakeups for them, and
//! a barrier after which none is left.
//!
//! Each test runs in a process of its own, in several configurations.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::alloc::System;
use std::process::{Command, Stdio};

use sheaves::heap;
use sheaves::raw::{Cache, Options};
use sheaves::rcu::defer::{self, Channel, Head, Pending, call_rcu};

mod ages;
mod barriers;
mod stalls;
mod threads;

/// Counts the allocations of all threads by Rust's allocator.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards every call to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the same contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Set in a process that runs one test.
const OWN: &str = "SHEAVES_TEST_OWN";
const ENGINES: [&[(&str, &str)]; 2] =
    [&[], &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")]];

/// Runs a test of this program in a process of its own for each engine, with additional options,
/// both at the same time. False in that process, where the test has to continue.
fn in_own_processes(test: &str, options: &[(&str, &str)]) -> bool {
    if std::env::var_os(OWN).is_some() {
        return false;
    }
    let children = ENGINES.map(|engine| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "--include-ignored", test]);
        command.env(OWN, "1").envs(engine.iter().chain(options).copied());
        (engine, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    for (engine, child) in children {
        let output = child.wait_with_output().unwrap();
        let [text, errors] = [&output.stdout, &output.stderr].map(|o| String::from_utf8_lossy(o));
        println!("{engine:?}\n{text}\n{errors}");
        assert!(output.status.success() && text.contains("1 passed"), "{test}, {engine:?}");
    }
    true
}

/// Resident bytes of this process.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Number of callbacks, and of objects of the channel, that were freed.
static FREED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn free_head(head: *mut Head) {
    // SAFETY: a block of the heap that was deferred by its head, which is at its start.
    unsafe { free_block(head.cast()) };
}

unsafe fn free_block(block: *mut u8) {
    FREED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: a block of the heap that was deferred.
    unsafe { heap::free(block) };
}

static CHANNEL: Channel = Channel::new("pending", free_block);
const BYTES: usize = 64;

/// A cache of objects of [`BYTES`].
fn cache() -> Cache {
    Cache::new("pending", Layout::from_size_align(BYTES, 8).unwrap(), Options::default()).unwrap()
}

/// The paths by which objects are deferred.
const PATHS: usize = 5;

/// Defers one object of [`BYTES`] on a path; returns the number of callbacks for it.
fn defer_on(path: usize, cache: &Cache) -> u64 {
    if path == 0 {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free_rcu(cache.alloc().unwrap()) };
        return 0;
    }
    if path == 1 {
        defer::defer(|| {
            FREED.fetch_add(1, Ordering::SeqCst);
        });
        return 1;
    }
    let block = heap::malloc(BYTES);
    assert!(!block.is_null());
    match path {
        // SAFETY: from the heap, not used after.
        2 => unsafe { heap::free_rcu(block) },
        // SAFETY: as above, and the channel frees it.
        3 => unsafe { CHANNEL.free_later(block, BYTES) },
        _ => {
            // SAFETY: the block has room for a head, and is aligned for it.
            unsafe { block.cast::<Head>().write(Head::new()) };
            // SAFETY: as above; the function frees it.
            unsafe { call_rcu(block.cast(), free_head) };
        }
    }
    u64::from(path > 2)
}

/// Everything that is pending, by the statistics: callbacks, channels, and caches.
fn pending() -> [Pending; 3] {
    let statistics = defer::statistics();
    let sum = |one: Pending, other: Pending| Pending {
        objects: one.objects + other.objects,
        bytes: one.bytes + other.bytes,
    };
    let layers = statistics.layers.map(|layer| layer.pending);
    [
        sum(statistics.calls, statistics.linked_calls),
        statistics.channels,
        layers.into_iter().fold(Pending::default(), sum),
    ]
}

fn assert_nothing_is_left() {
    assert_eq!(pending(), [Pending::default(); 3]);
    assert_eq!(defer::statistics().sealed, Pending::default());
}
