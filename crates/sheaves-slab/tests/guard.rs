//! Guard samples of named caches, whose frees read no owner map: no object is lost or handed out
//! twice, whichever way it takes.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use sheaves_slab::internal::sampling;
use sheaves_slab::internal::trap::contains;
use sheaves_slab::raw::{Cache, Options};

/// One test at a time: there is one pool.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cache(name: &str, size: usize, options: Options) -> Cache {
    Cache::new(name, Layout::from_size_align(size, 8).unwrap(), options).unwrap()
}

fn alloc_bulk(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    let mut places = vec![MaybeUninit::uninit(); count];
    assert_eq!(cache.alloc_bulk(&mut places), count);
    // SAFETY: all places were filled.
    places.iter().map(|place| unsafe { place.assume_init() }).collect()
}

/// An object with the number of its owner in each word.
struct Owned(NonNull<u8>, usize);

impl Owned {
    fn take(object: NonNull<u8>, number: usize, words: usize) -> Owned {
        for word in 0..words {
            // SAFETY: an object of as many words.
            unsafe { object.as_ptr().cast::<usize>().wrapping_add(word).write(number) };
        }
        Owned(object, number)
    }

    fn give(self, words: usize) -> NonNull<u8> {
        for word in 0..words {
            // SAFETY: as above.
            let found = unsafe { self.0.as_ptr().cast::<usize>().wrapping_add(word).read() };
            assert_eq!(found, self.1, "two owners");
        }
        self.0
    }
}

/// A thread that allocates and frees in each way. Returns how many of its objects were guarded.
fn churn(cache: &Cache, words: usize, first: usize) -> usize {
    let mut owned: Vec<Owned> = Vec::new();
    let mut guarded = 0;
    for round in 0..4000 {
        let number = first + round;
        let objects = match round % 3 {
            0 => alloc_bulk(cache, 40),
            _ => (0..40).map(|_| cache.alloc().unwrap()).collect(),
        };
        guarded += objects.iter().filter(|object| contains(object.addr().get())).count();
        owned.extend(objects.into_iter().map(|object| Owned::take(object, number, words)));
        let rest = owned.len() / 2;
        let given: Vec<_> = owned.drain(rest..).map(|object| object.give(words)).collect();
        match round % 4 {
            // SAFETY: from this cache, and not used after.
            0 => unsafe { cache.free_bulk(&given) },
            // SAFETY: as above; there are no readers.
            1 => given.into_iter().for_each(|object| unsafe { cache.free_rcu(object) }),
            // SAFETY: as above.
            _ => given.into_iter().for_each(|object| unsafe { cache.free(object) }),
        }
        if round % 500 == 0 {
            cache.shrink();
        }
    }
    for object in owned {
        // SAFETY: as above.
        unsafe { cache.free(object.give(words)) };
    }
    guarded
}

#[test]
fn objects_have_one_owner() {
    let _one = alone();
    assert!(sampling::start(4096));
    assert!(sampling::start_traps(1));
    for words in [3, 40, 300] {
        let cache = cache("churned", 8 * words, Options::default());
        let guarded = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, guarded) = (&cache, &guarded);
                scope.spawn(move || {
                    let found = churn(cache, words, 1 + thread * 100_000);
                    // Relaxed: read after the end of the threads.
                    guarded.fetch_add(found, Ordering::Relaxed);
                });
            }
        });
        // Relaxed: the threads have ended.
        let guarded = guarded.load(Ordering::Relaxed);
        println!("{words} words: {guarded} of {} objects were guarded", 4 * 4000 * 40);
        assert!(guarded > 0);
        cache.destroy().expect("every object is back");
    }
    sampling::stop_traps();
    sampling::stop();
}

#[test]
fn objects_with_contents_are_not_guarded() {
    unsafe extern "C" fn construct(object: NonNull<u8>) {
        // SAFETY: an object is larger.
        unsafe { object.cast::<u64>().write(77) };
    }
    let _one = alone();
    assert!(sampling::start(1024));
    assert!(sampling::start_traps(1));
    let layout = Layout::new::<[u64; 100]>();
    // SAFETY: the constructor writes to its object only.
    let constructed =
        unsafe { Cache::with_constructor("constructed", layout, Options::default(), construct) };
    let stable = Options { typesafe_by_rcu: true, ..Options::default() };
    for cache in [constructed.unwrap(), Cache::new("stable", layout, stable).unwrap()] {
        let objects = alloc_bulk(&cache, 1000);
        assert!(objects.iter().all(|object| !contains(object.addr().get())));
        // SAFETY: from this cache, and not used after.
        unsafe { cache.free_bulk(&objects) };
        cache.destroy().expect("every object is back");
    }
    sampling::stop_traps();
    sampling::stop();
}

/// A place of the pool is aligned to a page: there are no guarded objects with a larger alignment.
#[test]
fn objects_are_aligned() {
    let _one = alone();
    assert!(sampling::start(1024));
    assert!(sampling::start_traps(1));
    for align in [16384, 8192, 4096] {
        let layout = Layout::from_size_align(align, align).unwrap();
        let cache = Cache::new("aligned", layout, Options::default()).unwrap();
        let objects: Vec<_> = (0..300).map(|_| cache.alloc().unwrap()).collect();
        let is_aligned = |object: &NonNull<u8>| object.addr().get().is_multiple_of(align);
        assert!(objects.iter().all(is_aligned), "{align}: {objects:?}");
        for object in objects {
            // SAFETY: from this cache, and not used after.
            unsafe { cache.free(object) };
        }
        cache.destroy().expect("every object is back");
    }
    sampling::stop_traps();
    sampling::stop();
}

/// The pool and the profile know of the same blocks.
#[test]
fn the_profile_counts_guarded_objects() {
    let _one = alone();
    assert!(sampling::start(1024));
    assert!(sampling::start_traps(1));
    let cache = cache("counted", 2000, Options::default());
    // Slots rest after the frees of another test.
    let start = std::time::Instant::now();
    while start.elapsed().as_millis() < 30 {
        core::hint::spin_loop();
    }
    let objects = alloc_bulk(&cache, 150);
    let is_guarded = |object: &&NonNull<u8>| contains(object.addr().get());
    let guarded = objects.iter().filter(is_guarded).count();
    assert!(guarded > 100, "{guarded}: one in 1024 bytes is a sample");
    let samples = || {
        let mut text = String::new();
        sampling::dump(&mut text).unwrap();
        let mut sites = text.lines().filter(|line| line.starts_with("site live cache counted "));
        sites.next().map_or(0, |line| line.split(' ').nth(4).unwrap().parse::<usize>().unwrap())
    };
    assert_eq!(samples(), guarded);
    for object in objects {
        // SAFETY: from this cache, and not used after.
        unsafe { cache.free(object) };
    }
    cache.shrink();
    assert_eq!(samples(), 0);
    cache.destroy().expect("every object is back");
    sampling::stop_traps();
    sampling::stop();
}
