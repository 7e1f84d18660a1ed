//! Work that threads of the parent repeat, and each child does once. Everything checks itself.

use core::alloc::Layout;
use core::ffi::c_void;
use core::future::Future;
use core::hash::BuildHasherDefault;
use core::mem::transmute;
use core::pin::pin;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::hash::DefaultHasher;
use std::sync::Arc;
use std::task::Wake;

use sheaves::map::RcuHashMap;
use sheaves::raw::{Cache, Options};
use sheaves::rcu::defer::{self, Channel, Head, call_rcu};
use sheaves::rcu::{Cookie, RcuBox, RcuOption, Srcu, read, synchronize, synchronize_expedited};
use sheaves::{Counter, PerCpu, PerCpuRef, heap, percpu};

use crate::memory::may_fail;
use crate::watch;

/// Exits and prints the place of the check unless the condition holds. Takes no lock of Rust's
/// standard library: a child may have inherited it from another thread.
#[track_caller]
pub(crate) fn check(is_so: bool) {
    if is_so {
        return;
    }
    let place = core::panic::Location::caller();
    let mut line = sheaves_sys::report::Line::new();
    let _ = core::fmt::Write::write_fmt(
        &mut line,
        format_args!(
            "generation {}, in {}: {}:{} is not so\n",
            watch::generation(),
            watch::here(),
            place.file(),
            place.line()
        ),
    );
    let bytes = line.as_bytes();
    // SAFETY: the bytes of the line.
    unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(99) };
}

/// Unwraps the result of a request, which may fail only if memory may.
#[track_caller]
pub(crate) fn got<T>(something: Option<T>) -> Option<T> {
    check(something.is_some() || may_fail());
    something
}

/// A small random generator (xorshift64*).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        ((number * bound as u64) >> 32) as usize
    }
}

/// `bytes` of memory that nothing else uses: what is written into it stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    place: NonNull<u8>,
    bytes: usize,
    tag: u64,
}

impl Own {
    /// Writes the tag at both ends.
    fn new(place: NonNull<u8>, bytes: usize, tag: u64) -> Own {
        let own = Own { place, bytes, tag: tag ^ place.as_ptr().addr() as u64 };
        for end in own.ends() {
            // SAFETY: inside the memory, and nothing else uses it.
            unsafe { end.write_unaligned(own.tag) };
        }
        own
    }

    fn ends(&self) -> [*mut u64; 2] {
        let first = self.place.as_ptr();
        // SAFETY: there are at least 16 bytes.
        let last = unsafe { first.add(self.bytes - 8) };
        [first.cast(), last.cast()]
    }

    fn check(&self) {
        for end in self.ends() {
            // SAFETY: inside the memory.
            check(unsafe { end.read_unaligned() } == self.tag);
        }
    }
}

/// Blocks of the heap.
pub(crate) fn blocks(dice: &mut Dice, count: usize) -> Vec<Own> {
    let mut blocks = Vec::with_capacity(count);
    for number in 0..count {
        let bytes = match dice.below(200) {
            0 => 16 + dice.below(1 << 18),
            1..20 => 16 + dice.below(1 << 13),
            _ => 16 + dice.below(300),
        };
        let Some(place) = got(NonNull::new(heap::malloc(bytes))) else { continue };
        blocks.push(Own::new(place, bytes, number as u64));
    }
    blocks
}

/// Frees blocks, some of them after a grace period.
pub(crate) fn free_blocks(blocks: Vec<Own>) {
    for (number, block) in blocks.into_iter().enumerate() {
        block.check();
        if number % 8 == 3 && block.bytes < 1000 {
            // SAFETY: from the heap, not used after.
            unsafe { heap::free_rcu(block.place.as_ptr()) };
        } else {
            // SAFETY: as above.
            unsafe { heap::free(block.place.as_ptr()) };
        }
    }
}

pub(crate) fn heap(dice: &mut Dice, count: usize) {
    let blocks = blocks(dice, count);
    free_blocks(blocks);
    let large = heap::malloc((1 << 20) + dice.below(1 << 21));
    check(!large.is_null() || may_fail());
    // SAFETY: from the heap, or null.
    unsafe { heap::free(large) };
}

/// Objects of a cache.
pub(crate) fn objects(cache: &Cache, count: usize) -> Vec<Own> {
    let taken = (0..count).filter_map(|number| {
        let place = got(cache.alloc())?;
        Some(Own::new(place, cache.object_bytes(), number as u64))
    });
    taken.collect()
}

/// Frees objects, some of them after a grace period.
pub(crate) fn free_objects(cache: &Cache, objects: Vec<Own>) {
    for (number, object) in objects.into_iter().enumerate() {
        object.check();
        if number % 5 == 2 {
            // SAFETY: from this cache, not used after.
            unsafe { cache.free_rcu(object.place) };
        } else {
            // SAFETY: as above.
            unsafe { cache.free(object.place) };
        }
    }
}

/// A constructor that allocates.
unsafe extern "C" fn construct(object: NonNull<u8>) {
    let block = heap::malloc(100);
    // SAFETY: objects have 8 bytes and more.
    unsafe { object.cast::<u64>().write_unaligned(0) };
    // SAFETY: from the heap, or null.
    unsafe { heap::free(block) };
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).unwrap()
}

pub(crate) fn make_cache(bytes: usize, options: Options) -> Option<Cache> {
    got(Cache::new("forks", layout(bytes), options).ok())
}

fn make_constructed(bytes: usize) -> Option<Cache> {
    // SAFETY: the constructor writes only to the object, and does not use the cache.
    let cache =
        unsafe { Cache::with_constructor("forks", layout(bytes), Options::default(), construct) };
    got(cache.ok())
}

/// Creates, uses and destroys a cache of each kind.
pub(crate) fn caches(dice: &mut Dice, count: usize) {
    let kinds = [
        Options::default(),
        Options { debug: true, ..Options::default() },
        Options { typesafe_by_rcu: true, ..Options::default() },
    ];
    let make = |number| {
        let bytes = 16 + dice.below(60) * 8;
        kinds
            .get(number % 4)
            .map_or_else(|| make_constructed(bytes), |options| make_cache(bytes, *options))
    };
    let caches: Vec<Cache> = (0..count).filter_map(make).collect();
    for cache in &caches {
        let taken = objects(cache, dice.below(300));
        free_objects(cache, taken);
    }
    for cache in caches {
        check(cache.destroy().is_ok());
    }
}

/// Objects of the size of a cache's counters, which are zero and used by this thread only.
pub(crate) fn percpu(count: usize) {
    let made = (0..count).filter_map(|_| got(PerCpu::<[AtomicU64; 5]>::zeroed().ok()));
    let values: Vec<_> = made.collect();
    // Relaxed, here and below: only this thread uses them.
    for value in &values {
        check(value.iter().flatten().all(|word| word.load(Ordering::Relaxed) == 0));
    }
    for (number, value) in values.iter().enumerate() {
        for word in value.get() {
            word.fetch_add(number as u64, Ordering::Relaxed);
        }
    }
    for (number, value) in values.iter().enumerate() {
        for word in 0..5 {
            let sum: u64 = value.iter().map(|slot| slot[word].load(Ordering::Relaxed)).sum();
            check(sum == number as u64);
        }
    }
}

/// Per-CPU memory of many sizes.
pub(crate) fn handles(dice: &mut Dice, count: usize) {
    let sizes = (0..count).map(|_| 8 + dice.below(2000));
    let handles: Vec<_> =
        sizes.filter_map(|bytes| got(percpu::memory::alloc(bytes, 8).ok())).collect();
    for handle in &handles {
        // SAFETY: changed by transactions only, and allocated until it is freed below.
        unsafe { handle.cell::<usize>(0) }.add(handle.offset());
    }
    for handle in handles {
        // SAFETY: as above.
        check(unsafe { handle.cell::<usize>(0) }.sum() == handle.offset());
        // SAFETY: not used any more.
        check(unsafe { percpu::memory::free(handle) }.is_ok());
    }
}

/// A head that counts its calls.
#[repr(C)]
struct Called {
    head: Head,
    calls: AtomicU32,
}

unsafe extern "C" fn count_call(head: *mut Head) {
    // SAFETY: the head of a `Called`, which lives until its function has run.
    unsafe { &*head.cast::<Called>() }.calls.fetch_add(1, Ordering::SeqCst);
}

static CHANNEL_FREED: AtomicU64 = AtomicU64::new(0);
static CHANNEL: Channel = Channel::new("forks", free_block);

unsafe fn free_block(block: *mut u8) {
    CHANNEL_FREED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: a block of the heap that was deferred.
    unsafe { heap::free(block) };
}

/// Defers in every way; a barrier completes all of it.
pub(crate) fn defers(count: usize) {
    let call = || Called { head: Head::new(), calls: AtomicU32::new(0) };
    let mut called: Vec<Called> = (0..count).map(|_| call()).collect();
    let closures = Arc::new(AtomicU32::new(0));
    for (number, one) in called.iter_mut().enumerate() {
        // SAFETY: idle, and alive until the barrier below.
        unsafe { call_rcu(&raw mut one.head, count_call) };
        if number % 4 == 0 {
            let closures = Arc::clone(&closures);
            defer::defer(move || {
                closures.fetch_add(1, Ordering::SeqCst);
            });
        }
        let block = heap::malloc(64);
        if !block.is_null() {
            // SAFETY: from the heap; the channel frees it.
            unsafe { CHANNEL.free_later(block, 64) };
        }
        drop(RcuBox::try_new([number; 6]));
    }
    check(defer::barrier().is_ok());
    check(called.iter().all(|one| one.calls.load(Ordering::SeqCst) == 1));
    check(closures.load(Ordering::SeqCst) as usize == count.div_ceil(4));
}

/// Waits for grace periods in every way.
pub(crate) fn waits() {
    let option = RcuOption::new(1_u64);
    check(synchronize().is_ok());
    let retired = option.store(2);
    check(synchronize_expedited().is_ok());
    check(retired.is_some_and(|retired| retired.try_reclaim().is_ok()));
    let cookie = Cookie::start_poll();
    drop(read());
    check(cookie.wait().is_ok() && cookie.poll());
    check(Cookie::start_poll_expedited().wait_expedited().is_ok());
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits grace periods; one future is dropped before its grace period ends.
pub(crate) fn futures() {
    let mut dropped = Box::pin(Cookie::get().finished());
    let _ = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(Cookie::get().finished());
    let mut context = Context::from_waker(&waker);
    while future.as_mut().poll(&mut context) == Poll::Pending {
        std::thread::park();
    }
}

/// Kills a count of references and reinitialises it.
pub(crate) fn end_and_begin(count: &PerCpuRef) {
    check(count.kill().is_ok());
    check(count.is_released());
    check(count.reinit().is_ok());
}

/// The whole life of a count of references.
pub(crate) fn references() {
    let count: PerCpuRef = PerCpuRef::new(|| {});
    check(count.try_get() && count.try_get_live());
    check(count.kill() == Ok(true) && !count.is_released());
    count.put();
    count.put();
    check(count.is_released() && count.reinit().is_ok());
    end_and_begin(&count);
}

pub(crate) fn domain(domain: &Srcu) {
    drop(domain.read());
    domain.synchronize();
}

pub(crate) fn counter(counter: &Counter) {
    for amount in 1..200 {
        counter.add(amount);
        counter.sub(amount);
    }
}

pub(crate) fn trims() {
    sheaves::trim(0);
    percpu::memory::trim();
    heap::trim(0);
}

/// Runs `body` in threads of libc. Those of Rust's standard library take a lock when they start,
/// which no fork handler takes.
pub(crate) fn in_threads(count: usize, body: fn(u64)) {
    extern "C" fn start(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the argument of the call below, which was made of such a function.
        let body = unsafe { transmute::<*mut c_void, fn(u64)>(argument) };
        body(sheaves_sys::thread::id() as u64);
        null_mut()
    }
    // SAFETY: numbers in glibc, addresses in musl.
    let mut threads: [libc::pthread_t; 8] = unsafe { core::mem::zeroed() };
    for thread in &mut threads[..count] {
        // SAFETY: the function is of this type; the thread is joined below.
        let status =
            unsafe { libc::pthread_create(thread, core::ptr::null(), start, body as *mut c_void) };
        check(status == 0);
    }
    for thread in &threads[..count] {
        // SAFETY: made above, and joined once.
        check(unsafe { libc::pthread_join(*thread, null_mut()) } == 0);
    }
}

pub(crate) type Map = RcuHashMap<u64, u64, BuildHasherDefault<DefaultHasher>>;

/// Fills a map and empties it again, which resizes it. No other thread uses these keys.
pub(crate) fn fill_and_empty(map: &Map, first: u64, count: u64) {
    if may_fail() {
        // A map without memory aborts the program.
        return;
    }
    let guard = read();
    for key in first..first + count {
        map.insert(key, !key, &guard);
    }
    for key in first..first + count {
        check(map.get(&key, &guard) == Some(&!key));
    }
    for key in first..first + count {
        check(map.remove(&key, &guard).is_some());
    }
}
