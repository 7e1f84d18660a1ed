//! A reader that stalls while other threads defer as fast as they can.

use core::alloc::Layout;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves::heap;
use sheaves::raw::{Cache, Options};
use sheaves::rcu::{self, stall};

use crate::{BYTES, cache, in_own_processes, pending, resident_bytes};

/// Memory that the program uses all the time.
const BASE_BYTES: usize = 256 << 20;
const BLOCK_BYTES: usize = 1024;
/// The most objects that each of two threads defers.
const DEFERRED_BYTES: usize = 256 << 20;
const DEFERRING: usize = 2;

static IS_NAMED: AtomicBool = AtomicBool::new(false);
static AGE_MS: AtomicU64 = AtomicU64::new(0);

/// How long the reader stalls: three seconds, or `SHEAVES_STALL_SECONDS`.
fn stall_seconds() -> u64 {
    let asked = std::env::var("SHEAVES_STALL_SECONDS").ok();
    asked.and_then(|seconds| seconds.parse().ok()).unwrap_or(3)
}

/// Allocates memory of the program's own, and writes all of it.
fn base() -> Vec<*mut u8> {
    let written = |_| {
        let block = heap::malloc(BLOCK_BYTES);
        assert!(!block.is_null());
        // SAFETY: the block has this size, and no other thread knows it.
        unsafe { block.write_bytes(1, BLOCK_BYTES) };
        block
    };
    (0..BASE_BYTES / BLOCK_BYTES).map(written).collect()
}

/// Defers until `until`; returns the number of objects.
fn defer_on_and_on(cache: &Cache, until: Instant) -> usize {
    let mut count = 0;
    while Instant::now() < until {
        if count * BYTES >= DEFERRED_BYTES {
            thread::sleep(Duration::from_millis(10));
            continue;
        }
        for _ in 0..1000 {
            let object = cache.alloc().unwrap();
            // SAFETY: ours, of that many bytes.
            unsafe { object.write_bytes(2, BYTES) };
            // SAFETY: from this cache, not used after.
            unsafe { cache.free_rcu(object) };
            count += 1;
        }
    }
    count
}

#[test]
fn stalled_reader_is_named_and_costs_nothing_afterwards() {
    let test = "stalls::stalled_reader_is_named_and_costs_nothing_afterwards";
    if in_own_processes(test, &[("SHEAVES_RCU_STALL_MS", "500")]) {
        return;
    }
    stall::set_callback(Some(|stall| {
        if stall.name() == "stays" {
            AGE_MS.store(stall.age_ms, Ordering::SeqCst);
            IS_NAMED.store(true, Ordering::SeqCst);
        }
    }));
    let (base, cache) = (base(), cache());
    let begin_bytes = resident_bytes();
    let until = Instant::now() + Duration::from_secs(stall_seconds());
    let (is_over, deferred) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (is_over, cache, deferred) = (&is_over, &cache, &deferred);
        let reader = thread::Builder::new().name("stays".into());
        let (sender, is_reading) = std::sync::mpsc::channel();
        let stay = move || {
            let _guard = rcu::read();
            sender.send(()).unwrap();
            while !is_over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        };
        reader.spawn_scoped(scope, stay).unwrap();
        is_reading.recv().unwrap();
        let threads: Vec<_> = (0..DEFERRING)
            .map(|_| {
                scope.spawn(move || {
                    deferred.fetch_add(defer_on_and_on(cache, until), Ordering::SeqCst);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // No thread defers now, and the reader is still active.
        let (count, [_, _, caches]) = (deferred.load(Ordering::SeqCst), pending());
        let stride = cache.stats().stride_bytes;
        println!("{count} objects pending, {} MiB resident", resident_bytes() >> 20);
        assert_eq!((caches.objects, caches.bytes), (count as u64, (count * stride) as u64));
        sheaves_rcu::defer::flush();
        is_over.store(true, Ordering::SeqCst);
    });
    let begin = Instant::now();
    let mut end_bytes = resident_bytes();
    // Takes a second on an idle machine; the limit is for busy ones.
    while end_bytes > begin_bytes + begin_bytes / 100 && begin.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(10));
        end_bytes = resident_bytes();
    }
    println!("back after {:?}", begin.elapsed());
    let named_ms = AGE_MS.load(Ordering::SeqCst);
    println!("{begin_bytes} bytes before, {end_bytes} after; named after {named_ms} ms");
    crate::assert_nothing_is_left();
    assert!(IS_NAMED.load(Ordering::SeqCst), "the reader was not named");
    assert!(end_bytes <= begin_bytes + begin_bytes / 100, "{begin_bytes} {end_bytes}");
    black_box(base);
}

/// A callback of stalls may call everything, so no lock of the library is held around it.
#[test]
fn callback_of_a_stall_allocates() {
    let options = [("SHEAVES_RCU_STALL_MS", "50"), ("SHEAVES_RCU_RECLAIMERS", "0")];
    if in_own_processes("stalls::callback_of_a_stall_allocates", &options) {
        return;
    }
    stall::set_callback(Some(|_| {
        // The first cache of this name, and the first block of this size class.
        let cache = Cache::new("in a callback", Layout::new::<[u64; 9]>(), Options::default());
        cache.unwrap().destroy().unwrap();
        let block = heap::malloc(29_000);
        // SAFETY: from `malloc`, not used after.
        unsafe { heap::free(block) };
        IS_NAMED.store(true, Ordering::SeqCst);
    }));
    let cache = cache();
    let start_reader = |reads_ms| {
        let reader = thread::spawn(move || {
            let _guard = rcu::read();
            thread::sleep(Duration::from_millis(reads_ms));
        });
        thread::sleep(Duration::from_millis(20));
        reader
    };
    let reader = start_reader(600);
    for _ in 0..10_000 {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free_rcu(cache.alloc().unwrap()) };
    }
    // Each takes what is ready of every cache, under the lock of the list of caches.
    while !reader.is_finished() {
        heap::trim(0);
        thread::sleep(Duration::from_millis(10));
    }
    reader.join().unwrap();
    // Where no lock is held the stall is reported.
    let reader = start_reader(300);
    sheaves_rcu::synchronize().unwrap();
    reader.join().unwrap();
    assert!(IS_NAMED.load(Ordering::SeqCst));
}
