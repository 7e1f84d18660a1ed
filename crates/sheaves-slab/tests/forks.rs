//! Forks while other threads are anywhere in a cache's slow paths: the child can use the cache.

use core::alloc::Layout;
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use sheaves_rcu::internal;
use sheaves_slab::internal::chunk;
use sheaves_slab::raw::{Cache, Options};
use sheaves_sys::options::RCU_AGE_MS;

#[path = "../../sheaves-percpu/tests/transactions/own_process.rs"]
mod own_process;

/// A child that takes longer hangs.
const CHILD_LIMIT: Duration = Duration::from_secs(10);
const THREADS: usize = 3;

/// One test at a time: each forks.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forks, runs `body` in the child, and waits for the child. Kills it after `limit`. An error says
/// how the child ended, unless `body` returned true.
fn in_child(limit: Duration, body: impl FnOnce() -> bool) -> Result<(), String> {
    // SAFETY: the child uses caches, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no precondition. The child ends with the thread that forked.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let is_right = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child without the harness of the tests.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    assert!(child > 0, "no fork");
    let until = Instant::now() + limit;
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > until {
            // SAFETY: our own child, which is not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above; it is about to end.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return Err(format!("the child hung for {limit:?}"));
        }
        thread::sleep(Duration::from_micros(200));
    }
    if status == 0 { Ok(()) } else { Err(format!("the child ended with status {status:#x}")) }
}

fn cache(name: &str, size: usize, options: Options) -> Cache {
    Cache::new(name, Layout::from_size_align(size, 8).unwrap(), options).unwrap()
}

/// The child's own handle of a cache that the parent has lent to threads.
///
/// # Safety
/// Only the result is used afterwards, and no other handle destroys the cache.
unsafe fn own(cache: &Cache) -> Cache {
    // SAFETY: a handle is plain words; by the contract there is one user.
    unsafe { core::ptr::from_ref(cache).read() }
}

fn take(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().expect("memory")).collect()
}

fn give(cache: &Cache, objects: &[NonNull<u8>]) {
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(*object) };
    }
}

/// Threads run `work` until `parent`, which runs concurrently, has returned.
fn beside(work: impl Fn() + Sync, parent: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            // Relaxed: a flag, also when the parent panics.
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..THREADS {
            // Relaxed: a flag.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        parent();
    });
}

/// In a debug cache each free of a large object has the oldest one in quarantine go to its slab.
/// Here slabs keep becoming full, or empty, and stop being so a moment later: `held` objects are
/// allocated besides those of the threads.
fn destroy_in_children(held: usize) {
    let _alone = alone();
    let checked = Options { debug: true, ..Options::default() };
    for _ in 0..12 {
        let cache = cache("listed", 16 << 10, checked);
        let held = take(&cache, held);
        let child = || {
            give(&cache, &held);
            // SAFETY: the child does not have the threads.
            match unsafe { own(&cache) }.destroy() {
                Ok(()) => true,
                // The objects that the threads held stay allocated for ever.
                Err(error) => error.objects_out <= THREADS,
            }
        };
        let mut result = Ok(());
        beside(
            || give(&cache, &take(&cache, 1)),
            || {
                thread::sleep(Duration::from_millis(1));
                result = (0..5).try_for_each(|_| in_child(CHILD_LIMIT, child));
            },
        );
        result.unwrap();
        give(&cache, &held);
        cache.destroy().unwrap();
    }
}

#[test]
fn a_child_destroys_a_cache_with_a_slab_that_was_about_to_be_empty() {
    destroy_in_children(0);
}

#[test]
fn a_child_destroys_a_cache_with_a_slab_that_was_full_of_used_objects() {
    destroy_in_children(64);
}

/// # Safety
/// The constructor writes to the 64 bytes that it is called with.
unsafe fn constructed(name: &str, constructor: unsafe extern "C" fn(NonNull<u8>)) -> Cache {
    let (layout, options) = (Layout::from_size_align(64, 8).unwrap(), Options::default());
    // SAFETY: by the contract.
    unsafe { Cache::with_constructor(name, layout, options, constructor) }.unwrap()
}

/// The cache that the constructors below use.
static LOWER: OnceLock<Cache> = OnceLock::new();

/// # Safety
/// `object` is 64 bytes.
unsafe extern "C" fn construct_with_another_cache(object: NonNull<u8>) {
    if let Some(lower) = LOWER.get() {
        give(lower, &take(lower, 1));
    }
    // SAFETY: as above.
    unsafe { object.cast::<u64>().write(BUILT) };
}

const BUILT: u64 = 0x0b11_7001;

fn is_built(object: NonNull<u8>) -> bool {
    // SAFETY: an object of 64 bytes of ours.
    unsafe { object.cast::<u64>().read() == BUILT }
}

/// A fork takes the caches' locks in the order of their numbers. A constructor that waits for the
/// lock of a lower cache while that of its own is held would deadlock with the fork.
#[test]
fn constructors_use_other_caches_beside_forks() {
    let _alone = alone();
    let scenario = || {
        LOWER.get_or_init(|| cache("lower", 64, Options { debug: true, ..Options::default() }));
        // SAFETY: what it is called with is 64 bytes.
        let cache = unsafe { constructed("upper", construct_with_another_cache) };
        let work = || {
            let object = take(&cache, 1);
            assert!(is_built(object[0]));
            give(&cache, &object);
            // The next object has a slab of its own.
            cache.shrink();
        };
        let mut result = Ok(());
        let child = || {
            work();
            true
        };
        beside(work, || result = (0..100).try_for_each(|_| in_child(CHILD_LIMIT, child)));
        result.is_ok()
    };
    in_child(Duration::from_secs(40), scenario).unwrap();
}

/// # Safety
/// `object` is 64 bytes.
unsafe extern "C" fn construct_and_fork(object: NonNull<u8>) {
    static IS_FIRST: AtomicBool = AtomicBool::new(true);
    // SAFETY: as above.
    unsafe { object.cast::<u64>().write(BUILT) };
    // Relaxed: one thread.
    if !IS_FIRST.swap(false, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the child returns from the constructor, too, and reports by its exit status.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: no precondition.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // Relaxed: one thread.
        IS_CHILD.store(true, Ordering::Relaxed);
    }
}

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Parent and child both continue in the constructor, each with a slab that is not listed yet.
#[test]
fn a_constructor_forks() {
    let _alone = alone();
    let scenario = || {
        // SAFETY: what it is called with is 64 bytes.
        let building = unsafe { constructed("forks", construct_and_fork) };
        let other = cache("other", 64, Options::default());
        let first = take(&building, 1);
        let others = take(&other, 100_000);
        for object in &others {
            // SAFETY: ours.
            unsafe { object.cast::<u64>().write(0) };
        }
        let objects = take(&building, 3000);
        let is_right = first.iter().chain(&objects).all(|object| is_built(*object));
        give(&other, &others);
        give(&building, &first);
        give(&building, &objects);
        let is_right = is_right && building.destroy().is_ok() && other.destroy().is_ok();
        // Relaxed: one thread.
        if IS_CHILD.load(Ordering::Relaxed) {
            // SAFETY: ends the child without the harness of the tests.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: the child of the constructor, and a place for its status. A limit of time ends
        // this process.
        unsafe { libc::wait(&raw mut status) };
        is_right && status == 0
    };
    in_child(Duration::from_secs(40), scenario).unwrap();
}

/// Granules that a thread is discarding belong to no cache. In a child, which does not have the
/// thread, they are free memory of the heap.
#[test]
fn a_child_has_what_another_thread_was_giving_back() {
    const OBJECT_BYTES: usize = 32 << 10;
    let _alone = alone();
    // The first cache starts the heap.
    cache("first", 64, Options::default()).destroy().unwrap();
    let used_before = chunk::footprint().used_bytes;
    let is_whole = || chunk::footprint().used_bytes == used_before;
    let round = || {
        let cache = cache("slabs", OBJECT_BYTES, Options::default());
        let objects: Vec<_> = (0..512).map(|_| cache.alloc().unwrap()).collect();
        for object in &objects {
            // SAFETY: an object of ours.
            unsafe { object.write_bytes(1, OBJECT_BYTES) };
        }
        // SAFETY: objects of this cache.
        unsafe { cache.free_bulk(&objects) };
        cache.destroy().unwrap();
        thread::sleep(Duration::from_micros(50));
        in_child(CHILD_LIMIT, is_whole)
    };
    let mut result = Ok(());
    let trim = || {
        chunk::trim(0);
    };
    beside(trim, || result = (0..40).try_for_each(|_| round()));
    result.unwrap();
    assert!(is_whole());
}

/// Set in the process that a test starts with options of its own.
const PROCESS: &str = "SHEAVES_TEST_FORKS_PROCESS";

/// The parent has begun the sheaf, and has armed the bound on its age for its own thread.
#[test]
fn what_a_child_defers_onto_a_sheaf_of_its_parent_comes_back() {
    let _alone = alone();
    let cache = cache("inherited", 64, Options::default());
    // SAFETY: from this cache, and without readers.
    let defer = |object| unsafe { cache.free_rcu(object) };
    for _ in 0..8 {
        RCU_AGE_MS.set(3_600_000);
        let objects = take(&cache, 2);
        defer(objects[0]);
        let child = || {
            RCU_AGE_MS.set(1);
            defer(objects[1]);
            let until = Instant::now() + CHILD_LIMIT / 2;
            while cache.stats().objects_deferred != 0 && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            cache.stats().objects_deferred == 0
        };
        let status = in_child(CHILD_LIMIT, child);
        RCU_AGE_MS.set(20);
        assert_eq!(status, Ok(()));
    }
}

/// The child has no reclaimer, and its first deferral needs one. The thread must be started while
/// no lock is held, which the library asserts.
#[test]
fn a_child_under_pressure_starts_a_reclaimer() {
    const NAME: &str = "a_child_under_pressure_starts_a_reclaimer";
    const OPTIONS: [(&str, &str); 3] = [
        (PROCESS, "1"),
        // Nothing is reclaimed by its age.
        ("SHEAVES_RCU_AGE_MS", "60000"),
        // The pressure is high from 128 objects on.
        ("SHEAVES_RCU_BYTES", "4194304"),
    ];
    if std::env::var_os(PROCESS).is_none() {
        own_process::pass(NAME, &OPTIONS);
        return;
    }
    let cache = cache("pressed", 4096, Options::default());
    let defer = |objects: &[NonNull<u8>]| {
        // SAFETY: from this cache, and not used any more.
        objects.iter().for_each(|object| unsafe { cache.free_rcu(*object) });
    };
    let child = || {
        defer(&take(&cache, 600));
        let until = Instant::now() + CHILD_LIMIT / 2;
        while internal::reclaimer_thread().is_none() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        internal::reclaimer_thread().is_some()
    };
    // The bytes are reported in steps of 128 objects: in some children the first sheaf is a step.
    for _ in 0..130 {
        defer(&take(&cache, 1));
        in_child(CHILD_LIMIT, child).unwrap();
    }
}

/// What [`defer_in_handler`] frees, if anything.
static IN_HANDLER: Mutex<Option<Deferred>> = Mutex::new(None);
struct Deferred(&'static Cache, NonNull<u8>);
// SAFETY: the object has one user.
unsafe impl Send for Deferred {}

static IS_HANDLER_RUNNING: AtomicBool = AtomicBool::new(false);
static IS_READER_WAITING: AtomicBool = AtomicBool::new(false);

/// Runs while the fork holds all locks: see [`EARLY`].
extern "C" fn defer_in_handler() {
    let Some(Deferred(cache, object)) = IN_HANDLER.lock().unwrap().take() else { return };
    // Release pairs with the Acquire in the reader. Acquire pairs with its Release.
    IS_HANDLER_RUNNING.store(true, Ordering::Release);
    while !IS_READER_WAITING.load(Ordering::Acquire) {
        thread::yield_now();
    }
    // SAFETY: from this cache, and not used any more.
    unsafe { cache.free_rcu(object) };
}

extern "C" fn register() {
    // SAFETY: a function of this program.
    assert_eq!(unsafe { libc::pthread_atfork(Some(defer_in_handler), None, None) }, 0);
}

/// Runs before the constructors without a number, such as that of the library: what is registered
/// first before a fork runs last.
#[used]
#[unsafe(link_section = ".init_array.00101")]
static EARLY: extern "C" fn() = register;

/// A handler of another library has no memory to defer an object. A reader may wait for a lock that
/// the fork holds, so the handler cannot wait for the reader.
fn defer_without_memory_beside(reader: impl FnOnce(&Cache) + Send) -> Result<(), String> {
    let scenario = || {
        let cache = Box::leak(Box::new(cache("deferring", 64, Options::default())));
        let object = take(cache, 1)[0];
        sheaves_slab::internal::FAULTS.fail_one_in(1);
        *IN_HANDLER.lock().unwrap() = Some(Deferred(cache, object));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !IS_HANDLER_RUNNING.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                reader(cache);
            });
            in_child(CHILD_LIMIT, || true).is_ok()
        })
    };
    in_child(CHILD_LIMIT, scenario)
}

fn note_waiting() {
    IS_READER_WAITING.store(true, Ordering::Release);
}

#[test]
fn a_handler_without_memory_does_not_wait_for_readers_that_wait_for_it() {
    let _alone = alone();
    let read_and_lock = |cache: &Cache| {
        let _section = sheaves_rcu::read();
        note_waiting();
        cache.shrink();
        assert_eq!(sheaves_slab::internal::emergencies().leaks, 1);
    };
    defer_without_memory_beside(read_and_lock).unwrap();
}

#[test]
fn a_handler_without_memory_waits_for_other_readers() {
    let _alone = alone();
    let read_a_moment = |_: &Cache| {
        {
            let _section = sheaves_rcu::read();
            note_waiting();
        }
        let until = Instant::now() + CHILD_LIMIT / 2;
        while sheaves_slab::internal::emergencies().waits == 0 && Instant::now() < until {
            thread::yield_now();
        }
        assert_eq!(sheaves_slab::internal::emergencies().leaks, 0);
    };
    defer_without_memory_beside(read_a_moment).unwrap();
}
