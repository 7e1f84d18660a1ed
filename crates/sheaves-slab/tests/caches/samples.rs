//! Samples of allocations from caches: what they stand for is what is allocated, whichever way the
//! objects take, and no object is lost or given out twice.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use sheaves_percpu::memory::{self, Handle};
use sheaves_slab::internal::sampling;
use sheaves_slab::raw::{Cache, Options};

/// Mean bytes between samples: the tests have thousands of them.
const RATE: usize = 4096;

/// One test at a time: there is one profile.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cache(name: &str, size: usize, options: Options) -> Cache {
    Cache::new(name, Layout::from_size_align(size, 8).unwrap(), options).unwrap()
}

/// The sums over all sites of a cache.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    samples: u64,
    objects: u64,
    bytes: u64,
    all_objects: u64,
}

/// What a dump says of a cache: live, and deferred.
fn dumped(name: &str) -> [Sums; 2] {
    let mut text = String::new();
    sampling::dump(&mut text).unwrap();
    assert!(text.starts_with("sheaves heap profile 1\n") && text.ends_with("\nend\n"), "{text}");
    let mut sums = [Sums::default(), Sums::default()];
    for line in text.lines().filter(|line| line.starts_with("site ")) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[3] != name {
            continue;
        }
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        let sums = &mut sums[usize::from(words[1] == "deferred")];
        sums.samples += number(4);
        sums.objects += number(5);
        sums.bytes += number(6);
        sums.all_objects += number(7);
    }
    sums
}

/// The estimate of a number of objects is within five per cent and five standard errors: of two
/// million right ones about one is further off.
#[track_caller]
fn assert_near(sums: &Sums, objects: usize, what: &str) {
    let expected = objects as f64;
    let error = 5.0 * expected / (sums.samples.max(1) as f64).sqrt();
    let deviation = (sums.objects as f64 - expected).abs();
    assert!(deviation <= 0.05 * expected + error, "{what}: {sums:?} for {objects} objects");
}

fn alloc(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().unwrap()).collect()
}

fn free(cache: &Cache, objects: impl IntoIterator<Item = NonNull<u8>>) {
    for object in objects {
        // SAFETY: from this cache, and not used after.
        unsafe { cache.free(object) };
    }
}

fn alloc_bulk(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    let mut places = vec![MaybeUninit::uninit(); count];
    assert_eq!(cache.alloc_bulk(&mut places), count);
    // SAFETY: all places were filled.
    places.into_iter().map(|place| unsafe { place.assume_init() }).collect()
}

/// Fails if an address is in there twice.
#[track_caller]
fn assert_different(objects: &[NonNull<u8>]) {
    let mut sorted: Vec<usize> = objects.iter().map(|object| object.addr().get()).collect();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "an object was given out twice");
    assert!(sorted.iter().all(|address| address.is_multiple_of(8)), "a tag was given out");
}

/// All of these tests again: frees take other ways there.
#[test]
fn in_a_hardened_process() {
    if std::env::var_os("SHEAVES_HARDEN").is_some() {
        return;
    }
    let module = module_path!().split_once("::").map_or("", |(_, module)| module);
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.arg(module).env("SHEAVES_HARDEN", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn estimates_follow_allocations_and_frees() {
    let _alone = alone();
    for (size, name) in [(24, "samples-24"), (256, "samples-256"), (9000, "samples-9000")] {
        let cache = cache(name, size, Options::default());
        assert!(sampling::start(RATE));
        let count = (3 << 20) / size;
        let mut objects = alloc(&cache, count);
        assert_different(&objects);
        assert_near(&dumped(name)[0], count, "allocated");
        let rest = objects.split_off(count / 3);
        free(&cache, objects);
        assert_near(&dumped(name)[0], count - count / 3, "freed in part");
        let again = alloc(&cache, count / 3);
        assert_near(&dumped(name)[0], count, "allocated again");
        sampling::stop();
        free(&cache, again);
        let after = alloc(&cache, count / 3);
        assert_near(&dumped(name)[0], count - count / 3, "allocated while off");
        assert_different(&[&rest[..], &after[..]].concat());
        free(&cache, rest.into_iter().chain(after));
        assert_eq!(dumped(name)[0].samples, 0);
        cache.destroy().expect("every object is back");
    }
}

/// Keeps one object and frees another each time: what was freed last is allocated next.
#[test]
fn objects_that_come_and_go_bias_nothing() {
    let _alone = alone();
    let cache = cache("samples-churn", 256, Options::default());
    assert!(sampling::start(RATE));
    const KEPT: usize = 10_000;
    let mut kept = Vec::new();
    for _ in 0..KEPT {
        let keep = cache.alloc().unwrap();
        let brief = alloc(&cache, 3);
        free(&cache, brief);
        kept.push(keep);
    }
    let [live, _] = dumped("samples-churn");
    assert_near(&live, KEPT, "kept");
    assert_different(&kept);
    free(&cache, kept);
    assert_eq!(dumped("samples-churn")[0].samples, 0);
    sampling::stop();
    cache.destroy().expect("every object is back");
}

#[test]
fn objects_in_bulk_are_samples_too() {
    let _alone = alone();
    let cache = cache("samples-bulk", 256, Options::default());
    assert!(sampling::start(RATE));
    let mut all = Vec::new();
    for round in 0..100 {
        all.extend(alloc_bulk(&cache, 100 + round % 7));
        // Partly filled main sheaves, with tags, are copied from, too.
        all.push(cache.alloc().unwrap());
        let some = all.split_off(all.len() - 20);
        // SAFETY: from this cache, not used after, all different.
        unsafe { cache.free_bulk(&some) };
    }
    assert_different(&all);
    assert_near(&dumped("samples-bulk")[0], all.len(), "in bulk");
    // SAFETY: from this cache, not used after, all different.
    unsafe { cache.free_bulk(&all) };
    assert_eq!(dumped("samples-bulk")[0].samples, 0);
    sampling::stop();
    cache.destroy().expect("every object is back");
}

#[test]
fn deferred_objects_are_counted_as_such() {
    let _alone = alone();
    let cache = cache("samples-rcu", 256, Options::default());
    assert!(sampling::start(RATE));
    const COUNT: usize = 5_000;
    let objects = alloc(&cache, 2 * COUNT);
    let reader = sheaves_rcu::read();
    for object in &objects[..COUNT] {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free_rcu(*object) };
    }
    let [live, deferred] = dumped("samples-rcu");
    assert_near(&live, COUNT, "live");
    assert_near(&deferred, COUNT, "deferred");
    drop(reader);
    sheaves_rcu::defer::barrier().unwrap();
    let [live, deferred] = dumped("samples-rcu");
    assert_near(&live, COUNT, "live after the grace period");
    assert_eq!(deferred.samples, 0);
    free(&cache, objects[COUNT..].iter().copied());
    assert_eq!(dumped("samples-rcu")[0].samples, 0);
    sampling::stop();
    cache.destroy().expect("every object is back");
}

#[test]
fn constructed_objects_stay_constructed() {
    unsafe extern "C" fn construct(object: NonNull<u8>) {
        // SAFETY: an object is as large.
        unsafe { object.cast::<u64>().write(0x5EED) };
    }
    let _alone = alone();
    let options = Options { typesafe_by_rcu: true, ..Options::default() };
    let layout = Layout::new::<[u64; 32]>();
    // SAFETY: the constructor writes to the object only.
    let made = unsafe { Cache::with_constructor("samples-made", layout, options, construct) };
    let cache = made.unwrap();
    assert!(sampling::start(RATE));
    for _ in 0..5 {
        let objects = alloc(&cache, 1000);
        for object in &objects {
            // SAFETY: an object of the cache, which the test has.
            assert_eq!(unsafe { object.cast::<u64>().read() }, 0x5EED);
        }
        free(&cache, objects);
        assert!(cache.shrink());
    }
    sampling::stop();
    cache.destroy().expect("every object is back");
}

#[test]
fn percpu_objects_are_samples() {
    const COUNT: usize = 20_000;
    let _alone = alone();
    assert!(sampling::start(RATE));
    let mut handles: Vec<_> = (0..COUNT).map(|_| memory::alloc(96, 8).unwrap()).collect();
    let [live, _] = dumped("percpu");
    assert_near(&live, COUNT, "allocated");
    assert!(live.bytes >= live.objects * 95, "less than one slot: {live:?}");
    let free = |handles: Vec<Handle>| {
        for handle in handles {
            // SAFETY: allocated above, and not used.
            unsafe { memory::free(handle) }.unwrap();
        }
    };
    free(handles.split_off(COUNT / 4));
    assert_near(&dumped("percpu")[0], COUNT / 4, "freed in part");
    sampling::stop();
    free(handles);
    assert_eq!(dumped("percpu")[0].samples, 0);
}

#[test]
fn debug_caches_have_no_samples() {
    let _alone = alone();
    let cache = cache("samples-debug", 256, Options { debug: true, ..Options::default() });
    assert!(sampling::start(RATE));
    let objects = alloc(&cache, 2000);
    assert_eq!(dumped("samples-debug")[0], Sums::default());
    free(&cache, objects);
    sampling::stop();
    cache.destroy().expect("every object is back");
}

/// Threads use a cache in every way while profiling goes on and off, and slots are drained.
#[test]
fn no_object_is_lost_or_doubled() {
    const THREADS: u64 = 8;
    const STEPS: u64 = 2_000;
    let _alone = alone();
    let cache = cache("samples-all", 96, Options::default());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|number| {
                let cache = &cache;
                scope.spawn(move || use_in_every_way(cache, number, STEPS))
            })
            .collect();
        let (cache, is_over) = (&cache, &is_over);
        let switch = scope.spawn(move || {
            let mut round = 0_usize;
            // Acquire pairs with the Release below.
            while !is_over.load(Ordering::Acquire) {
                match round % 4 {
                    0 => assert!(sampling::start(1024 << (round % 3))),
                    1 => drop(dumped("samples-all")),
                    2 => drop(cache.shrink()),
                    _ => sampling::stop(),
                }
                round += 1;
                thread::yield_now();
            }
            sampling::stop();
        });
        for thread in threads {
            thread.join().unwrap();
        }
        // Release pairs with the Acquire above.
        is_over.store(true, Ordering::Release);
        switch.join().unwrap();
    });
    sheaves_rcu::defer::barrier().unwrap();
    let live = dumped("samples-all").map(|sums| sums.samples);
    assert_eq!(live, [0, 0], "samples of free objects");
    cache.destroy().expect("every object is back");
}

/// Each object has its owner's number in it while it is allocated.
fn use_in_every_way(cache: &Cache, number: u64, steps: u64) {
    let mut seed = number;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number | 1);
        (seed >> 33) as usize % below
    };
    let mut objects: Vec<NonNull<u8>> = Vec::new();
    let take = |objects: &mut Vec<NonNull<u8>>, object: NonNull<u8>| {
        // SAFETY: the object is 96 bytes and this thread's alone.
        unsafe { object.cast::<u64>().write(number << 32 | object.addr().get() as u64 >> 3) };
        objects.push(object);
    };
    let check = |object: NonNull<u8>| {
        // SAFETY: as above.
        let found = unsafe { object.cast::<u64>().read() };
        assert_eq!(found, number << 32 | object.addr().get() as u64 >> 3, "an object was doubled");
    };
    for _ in 0..steps {
        match random(8) {
            0..=3 if objects.len() < 400 => take(&mut objects, cache.alloc().unwrap()),
            4 if objects.len() < 400 => {
                for object in alloc_bulk(cache, 1 + random(60)) {
                    take(&mut objects, object);
                }
            }
            5 if objects.len() > 50 => {
                let some = objects.split_off(objects.len() - 30);
                some.iter().for_each(|object| check(*object));
                // SAFETY: from this cache, not used after, all different.
                unsafe { cache.free_bulk(&some) };
            }
            6 if !objects.is_empty() => {
                let object = objects.swap_remove(random(objects.len()));
                check(object);
                // SAFETY: from this cache, not used after.
                unsafe { cache.free_rcu(object) };
            }
            _ if !objects.is_empty() => {
                let object = objects.swap_remove(random(objects.len()));
                check(object);
                free(cache, [object]);
            }
            _ => {}
        }
    }
    objects.iter().for_each(|object| check(*object));
    free(cache, objects);
}
