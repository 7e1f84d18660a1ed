//! Storm: more threads than slots, moved between CPUs every millisecond and signalled all the time,
//! while another thread keeps draining the slots.
//!
//! Each object carries a tag that says whether a thread owns it. Allocating an owned object, or
//! freeing one that is not owned, is detected at once. A lost object is detected at the end, when
//! the cache refuses to be destroyed. `SHEAVES_STORM_SECONDS` sets the duration.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use sheaves_slab::raw::{Cache, Options};

use crate::dice::Dice;
use crate::engines;

/// More than the slots of the smallest configurations and than most test machines have.
const THREADS: usize = 8;
const SECONDS_DEFAULT: u64 = 5;
/// The most objects that a thread owns of each cache.
const HAND_MAX: usize = 1500;
/// The most objects that change their owner at once.
const BULK_MAX: usize = 300;
const MIGRATION_INTERVAL: Duration = Duration::from_millis(1);
const SIGNAL_INTERVAL: Duration = Duration::from_micros(50);

/// The tag of an object that no thread owns.
const FREE: u64 = 0x6672_6565_6672_6565;
/// The upper half of the tags of objects that a thread owns.
const OWNED: u64 = 0x7374_6f72;

/// The source of the objects: a cache, or something that only pretends to be one.
trait Source: Sync {
    /// True when objects hold [`FREE`] between two users, and when they are new; false when they
    /// may hold anything but the tag of an owner.
    fn keeps_contents(&self) -> bool;
    fn take(&self) -> Option<NonNull<u8>>;
    fn give(&self, object: NonNull<u8>);
    fn take_many(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize;
    fn give_many(&self, objects: &[NonNull<u8>]);
    fn drain(&self) -> bool;
}

/// A cache, with or without a constructor: the pages of free objects are discarded unless a
/// constructor has written contents that must stay.
struct Stormed {
    cache: Cache,
    constructed: bool,
}

impl Stormed {
    fn new(size: usize, constructed: bool) -> Stormed {
        let layout = Layout::from_size_align(size, 8).unwrap();
        let options = Options::default();
        let cache = if constructed {
            // SAFETY: it writes to the object.
            unsafe { Cache::with_constructor("storm", layout, options, construct) }
        } else {
            Cache::new("storm", layout, options)
        };
        Stormed { cache: cache.unwrap(), constructed }
    }
}

impl Source for Stormed {
    fn keeps_contents(&self) -> bool {
        self.constructed
    }

    fn take(&self) -> Option<NonNull<u8>> {
        self.cache.alloc()
    }

    fn give(&self, object: NonNull<u8>) {
        // SAFETY: the storm frees what it allocated, once; the tags check that.
        unsafe { self.cache.free(object) };
    }

    fn take_many(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        self.cache.alloc_bulk(out)
    }

    fn give_many(&self, objects: &[NonNull<u8>]) {
        // SAFETY: as above.
        unsafe { self.cache.free_bulk(objects) };
    }

    fn drain(&self) -> bool {
        self.cache.shrink()
    }
}

fn tag(object: NonNull<u8>) -> &'static AtomicU64 {
    // SAFETY: objects are at least 8 bytes, aligned to 8, and stay mapped while a thread owns them;
    // all access to their first word is atomic.
    unsafe { object.cast::<AtomicU64>().as_ref() }
}

/// Objects keep their contents from one user to the next, so the tag is set once per slab.
///
/// # Safety
/// `object` is at least 8 bytes.
unsafe extern "C" fn construct(object: NonNull<u8>) {
    // SAFETY: as above, and nothing else uses it yet.
    unsafe { object.cast::<u64>().write(FREE) };
}

/// One thread's objects, with the tag that it wrote into each.
type Hand = Vec<(NonNull<u8>, u64)>;

/// State that all threads of a storm share.
struct Storm<'a> {
    sources: &'a [&'a dyn Source],
    until: Instant,
    over: AtomicBool,
    /// The first fault that a thread found.
    fault: Mutex<Option<String>>,
    /// Threads that are moved and signalled; 0 while not started or after its end.
    targets: [AtomicI32; THREADS],
    /// Objects on their way from one thread to another, by source.
    market: Vec<Mutex<Vec<(usize, u64)>>>,
    /// Wraps around after more objects than are ever owned at once.
    serial: AtomicU32,
    operations: AtomicUsize,
    migrations: AtomicUsize,
    drains: AtomicUsize,
}

impl Storm<'_> {
    // Relaxed, all of this file: counters and hints; joining the threads orders the rest.
    fn goes_on(&self) -> bool {
        // On a busy machine the thread that moves the others may not have run yet.
        let has_moved = self.migrations.load(Ordering::Relaxed) > 0;
        let has_stormed = has_moved && SIGNALS.load(Ordering::Relaxed) > 0;
        let patience = if has_stormed { Duration::ZERO } else { Duration::from_secs(60) };
        !self.over.load(Ordering::Relaxed) && Instant::now() < self.until + patience
    }

    fn found(&self, text: String) {
        self.over.store(true, Ordering::Relaxed);
        self.fault.lock().unwrap().get_or_insert(text);
    }

    fn mark(&self, source: usize, object: NonNull<u8>) -> (NonNull<u8>, u64) {
        let mine = OWNED << 32 | u64::from(self.serial.fetch_add(1, Ordering::Relaxed));
        let before = tag(object).swap(mine, Ordering::Relaxed);
        let strict = self.sources[source].keeps_contents();
        let is_taken = if strict { before != FREE } else { before >> 32 == OWNED };
        if is_taken {
            self.found(format!("{object:p} was taken twice: {before:#x}"));
        }
        (object, mine)
    }

    fn unmark(&self, object: NonNull<u8>, mine: u64) {
        let before = tag(object).swap(FREE, Ordering::Relaxed);
        if before != mine {
            self.found(format!("{object:p} has {before:#x}, not {mine:#x}"));
        }
    }

    fn take(&self, source: usize, count: usize, hand: &mut Hand) {
        if count == 1 {
            match self.sources[source].take() {
                Some(object) => hand.push(self.mark(source, object)),
                None => self.found("no object".into()),
            }
            return;
        }
        let mut out = vec![MaybeUninit::uninit(); count];
        let got = self.sources[source].take_many(&mut out);
        if got != count {
            self.found(format!("{got} of {count} objects"));
        }
        for object in &out[..got] {
            // SAFETY: the first `got` were filled.
            hand.push(self.mark(source, unsafe { object.assume_init() }));
        }
    }

    fn give(&self, source: usize, count: usize, hand: &mut Hand) {
        let given = hand.split_off(hand.len().saturating_sub(count));
        given.iter().for_each(|(object, mine)| self.unmark(*object, *mine));
        match given[..] {
            [(object, _)] => self.sources[source].give(object),
            _ => {
                let objects: Vec<_> = given.iter().map(|(object, _)| *object).collect();
                self.sources[source].give_many(&objects);
            }
        }
    }

    /// Leaves some objects for other threads, or takes objects that they left.
    fn trade(&self, source: usize, count: usize, hand: &mut Hand) {
        let mut market = self.market[source].lock().unwrap();
        if market.len() < THREADS * BULK_MAX {
            let left = hand.split_off(hand.len().saturating_sub(count));
            market.extend(
                left.iter().map(|(object, mine)| (object.as_ptr().expose_provenance(), *mine)),
            );
        } else {
            hand.extend(market.drain(..count).map(|(address, mine)| (object_at(address), mine)));
        }
    }

    fn work(&self, index: usize) {
        let mut dice = Dice(index as u64 + 1);
        let mut hands: Vec<Hand> = self.sources.iter().map(|_| Hand::new()).collect();
        // SAFETY: no precondition.
        let thread = unsafe { libc::gettid() };
        self.targets[index].store(thread, Ordering::Relaxed);
        let mut operations = 0;
        while self.goes_on() {
            for _ in 0..50 {
                let source = dice.throw(self.sources.len());
                let hand = &mut hands[source];
                // Most calls are for one object: only these use the fast path.
                let count = if dice.throw(8) > 0 { 1 } else { dice.throw(BULK_MAX) + 2 };
                match dice.throw(9) {
                    0..4 if hand.len() < HAND_MAX => self.take(source, count, hand),
                    8 => self.trade(source, count.min(BULK_MAX), hand),
                    _ => self.give(source, count, hand),
                }
            }
            operations += 50;
        }
        self.targets[index].store(0, Ordering::Relaxed);
        self.operations.fetch_add(operations, Ordering::Relaxed);
        for (source, hand) in hands.iter_mut().enumerate() {
            // All of it: trades may have made it larger than `HAND_MAX`.
            self.give(source, hand.len(), hand);
            assert!(hand.is_empty());
        }
    }

    /// Moves every thread to a random CPU, each millisecond.
    fn migrate(&self, processors: &[usize]) {
        let mut dice = Dice(77);
        while self.goes_on() {
            for target in &self.targets {
                let thread = target.load(Ordering::Relaxed);
                let processor = processors[dice.throw(processors.len())];
                if thread != 0 && bind(thread, processor) {
                    self.migrations.fetch_add(1, Ordering::Relaxed);
                }
            }
            std::thread::sleep(MIGRATION_INTERVAL);
        }
    }

    fn signal(&self) {
        let process = std::process::id().cast_signed();
        while self.goes_on() {
            for target in &self.targets {
                let thread = target.load(Ordering::Relaxed);
                if thread != 0 {
                    // SAFETY: a signal with a handler, to a thread of this process.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
                }
            }
            std::thread::sleep(SIGNAL_INTERVAL);
        }
    }

    fn drain(&self) {
        while self.goes_on() {
            for source in self.sources {
                if !source.drain() {
                    self.found("a slot could not be drained".into());
                }
                self.drains.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(MIGRATION_INTERVAL);
        }
    }

    /// Frees the objects that are still on the market.
    fn clear(&self) {
        for (source, market) in self.market.iter().enumerate() {
            let left: Vec<_> = core::mem::take(&mut *market.lock().unwrap());
            for (address, mine) in left {
                self.give(source, 1, &mut vec![(object_at(address), mine)]);
            }
        }
    }
}

fn object_at(address: usize) -> NonNull<u8> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap()
}

/// Binds a thread of this process to a CPU; false if that fails or the thread has ended.
fn bind(thread: i32, processor: usize) -> bool {
    // SAFETY: an all-zero set is valid and empty.
    let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the number comes from such a set.
    unsafe { libc::CPU_SET(processor, &mut mask) };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the mask is valid for reads of its size.
    unsafe { libc::sched_setaffinity(thread, size, &raw const mask) == 0 }
}

/// The CPUs on which this thread may run.
fn processors() -> Vec<usize> {
    // SAFETY: an all-zero set is valid and empty.
    let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the mask is valid for writes of its size.
    let status = unsafe { libc::sched_getaffinity(0, size, &raw mut mask) };
    assert_eq!(status, 0);
    // SAFETY: the numbers are below the number of bits of the set.
    (0..8 * size).filter(|processor| unsafe { libc::CPU_ISSET(*processor, &mask) }).collect()
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

/// Some work, with a loop, so that a signal uses its thread's registers and takes time.
extern "C" fn on_signal(_: i32) {
    for _ in 0..100 {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs the storm; returns the first fault that it found, if any.
fn storm(sources: &[&dyn Source], duration: Duration) -> Result<(), String> {
    let handler = on_signal as extern "C" fn(i32);
    // SAFETY: the handler touches one atomic only. libc restarts what it interrupts.
    let _ = unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let storm = Storm {
        sources,
        until: Instant::now() + duration,
        over: AtomicBool::new(false),
        fault: Mutex::new(None),
        targets: [const { AtomicI32::new(0) }; THREADS],
        market: sources.iter().map(|_| Mutex::default()).collect(),
        serial: AtomicU32::new(1),
        operations: AtomicUsize::new(0),
        migrations: AtomicUsize::new(0),
        drains: AtomicUsize::new(0),
    };
    let processors = processors();
    std::thread::scope(|scope| {
        let storm = &storm;
        (0..THREADS).for_each(|index| drop(scope.spawn(move || storm.work(index))));
        scope.spawn(|| storm.migrate(&processors));
        scope.spawn(|| storm.signal());
        scope.spawn(|| storm.drain());
    });
    storm.clear();
    let (signals, migrations) = (SIGNALS.load(Ordering::Relaxed), storm.migrations);
    println!(
        "{:?} operations, {migrations:?} moves, {} signals, {:?} drains",
        storm.operations,
        signals / 100,
        storm.drains,
    );
    let fault = storm.fault.into_inner().unwrap();
    assert!(fault.is_some() || signals > 0 && migrations.into_inner() > 0);
    fault.map_or(Ok(()), Err)
}

#[test]
fn no_object_is_lost_or_doubled() {
    let seconds = std::env::var("SHEAVES_STORM_SECONDS");
    let seconds = seconds.map_or(SECONDS_DEFAULT, |text| text.parse().unwrap());
    let caches = [Stormed::new(48, true), Stormed::new(2048, false)];
    let sources = [&caches[0] as &dyn Source, &caches[1]];
    assert_eq!(storm(&sources, Duration::from_secs(seconds)), Ok(()));
    for Stormed { cache, .. } in caches {
        let stats = cache.stats();
        assert_eq!(stats.objects_out, 0, "{stats:?}");
        cache.destroy().unwrap();
    }
}

/// Pretends to be a cache: a list of free objects, without any protection.
struct Unprotected {
    objects: Vec<[AtomicU64; 2]>,
    list: Vec<AtomicUsize>,
    used: AtomicUsize,
}

impl Unprotected {
    fn new() -> Unprotected {
        const OBJECTS: usize = 4 * THREADS * (HAND_MAX + BULK_MAX);
        let objects: Vec<_> =
            (0..OBJECTS).map(|_| [AtomicU64::new(FREE), AtomicU64::new(0)]).collect();
        let list =
            objects.iter().map(|object| AtomicUsize::new((&raw const *object).expose_provenance()));
        let (list, used) = (list.collect(), AtomicUsize::new(OBJECTS));
        Unprotected { objects, list, used }
    }
}

impl Source for Unprotected {
    fn keeps_contents(&self) -> bool {
        true
    }

    fn take(&self) -> Option<NonNull<u8>> {
        // Atomic accesses, so that the fault is one of logic only: nothing makes them one step.
        let used = self.used.load(Ordering::Relaxed);
        let object = self.list.get(used.checked_sub(1)?)?.load(Ordering::Relaxed);
        self.used.store(used - 1, Ordering::Relaxed);
        Some(object_at(object))
    }

    fn give(&self, object: NonNull<u8>) {
        let used = self.used.load(Ordering::Relaxed);
        if let Some(entry) = self.list.get(used) {
            entry.store(object.as_ptr().expose_provenance(), Ordering::Relaxed);
            self.used.store(used + 1, Ordering::Relaxed);
        }
    }

    fn take_many(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let mut objects = core::iter::from_fn(|| self.take());
        out.iter_mut().zip(&mut objects).map(|(place, object)| place.write(object)).count()
    }

    fn give_many(&self, objects: &[NonNull<u8>]) {
        objects.iter().for_each(|object| self.give(*object));
    }

    fn drain(&self) -> bool {
        self.objects.len() == self.list.len()
    }
}

/// A storm that never fails proves nothing.
#[test]
fn unprotected_list_does_not_survive() {
    // Once: the fault does not depend on the engine.
    if std::env::var_os(engines::EXPECT).is_some() {
        return;
    }
    let begin = Instant::now();
    let fault = storm(&[&Unprotected::new()], Duration::from_secs(10)).unwrap_err();
    println!("after {:?}: {fault}", begin.elapsed());
    assert!(fault.contains("taken twice") || fault.contains("not"), "{fault}");
}
