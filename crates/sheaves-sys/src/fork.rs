//! The fork registry: one `pthread_atfork` registration for all layers, in spine order.
//!
//! Each layer announces its handlers once, with its height in the spine. Before a fork the
//! handlers of the highest layer run first (locks are taken from the top down, the same order
//! in which a call takes them), afterwards the lowest first. Registration with libc happens in a
//! constructor of the program or shared object, before `main` and before any thread exists, and
//! never from inside an allocation: libc allocates while it registers.
//!
//! Between the handlers in the parent and after them the forking thread may use everything, as the
//! locks that it holds are [entered again](crate::lock). A fork inside a signal handler waits for
//! no lock of its own thread either.
//!
//! `_Fork` and a bare `clone(SIGCHLD)` run no handlers. Their child finds out with its first use of
//! a slow path, by a page that the kernel clears in every child (`MADV_WIPEONFORK`), and recovers:
//! each layer takes its locks, also from threads that are not in the child, puts in order what they
//! guard, and then runs the handler of an ordinary child. What other threads had in their hands, or
//! were changing, may be lost there; nothing is there twice, because the kernel copies a process
//! while none of its threads can write. Each thread is copied at one of its instructions, and these
//! fit together: what one thread has read from another, the other has written in the child, too.
//! So a change that is one store is there or not, and of a longer one the stores up to some point
//! are. The child must do that before it starts a thread. A child that shares the memory of its
//! parent (`vfork`, `CLONE_VM`) is no process of its own here.
//!
//! | word of the page | meaning | written by |
//! |---|---|---|
//! | 1 | the process has settled | [`register`]; the child, before its handlers run |
//! | 0 | it is a child whose handlers have not run | the kernel |

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::lock::Lock;
use crate::{map, process, tls};

/// What one layer does around a fork. All of it must neither allocate nor fail.
#[derive(Debug, Clone, Copy)]
pub struct Handlers {
    /// In the parent before the fork: take every lock of the layer.
    pub prepare: fn(),
    /// In the parent after the fork: give the locks back.
    pub parent: fn(),
    /// In the child: give the locks back and forget the other threads.
    pub child: fn(),
    /// In a child whose fork has not prepared, before `child`: take every lock, the lowest layer
    /// first, and put in order what threads have left that are not there.
    pub recover: fn(),
}

/// Layers that take part, from the lowest to the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Layer {
    /// `sheaves-percpu`.
    PerCpu = 0,
    /// `sheaves-rcu`.
    Rcu = 1,
    /// `sheaves-slab`.
    Slab = 2,
    /// `sheaves-heap`.
    Heap = 3,
}

const LAYERS: usize = 4;

/// Addresses of the layers' handlers, 0 while absent.
///
/// Written once per layer by [`announce`], read by the three handlers below.
static ANNOUNCED: [AtomicUsize; LAYERS] = [const { AtomicUsize::new(0) }; LAYERS];

/// Held from the first handler to the last, which makes one fork wait for another.
static PREPARING: Lock<()> = Lock::new(());
/// The layers that have prepared for the fork under way, one bit each: a layer that is announced
/// in the middle of a fork has nothing to give back. Changes under [`PREPARING`].
static READY: AtomicUsize = AtomicUsize::new(0);
/// Forks that signal handlers make while the thread runs the handlers of another fork; these have
/// the locks already. Changes under [`PREPARING`].
static NESTED: AtomicUsize = AtomicUsize::new(0);

/// The process that has settled last. Written where it has one thread, or under [`PREPARING`].
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The word that says whether the process has settled: in the page, [`SETTLED`] before there is
/// one, [`UNKNOWN`] where the kernel refuses it.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const SETTLED).cast_mut());
static SETTLED: AtomicU32 = AtomicU32::new(1);
/// Then the process is compared with [`PROCESS`] each time.
static UNKNOWN: AtomicU32 = AtomicU32::new(0);

/// How many forks there are between this process and the first. Written, as the next two, in the
/// child of a fork.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// The thread that has made this process, by its thread pointer, 0 in the first one.
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// The generation since which it was that thread.
static FORKER_SINCE: AtomicUsize = AtomicUsize::new(0);

/// How often the prepare handler has run: a test can prove that the registration is in effect.
static PREPARED: AtomicUsize = AtomicUsize::new(0);

/// Announces a layer's handlers; calling it again with the same ones changes nothing.
pub fn announce(layer: Layer, handlers: &'static Handlers) {
    // Release pairs with the Acquire in `each`: the handlers' text is constant, but what the
    // layer set up before it announced itself must be visible to them.
    ANNOUNCED[layer as usize].store(core::ptr::from_ref(handlers).addr(), Ordering::Release);
}

/// [`announce`] when the object is loaded, before there are threads.
///
/// A layer that announced itself with its first use could be in the middle of that, with its locks
/// held, when another thread forks: the child would wait for these locks for ever.
#[macro_export]
macro_rules! announce_when_loaded {
    ($layer:ident, $handlers:expr) => {
        const _: () = {
            extern "C" fn constructor() {
                $crate::fork::announce($crate::fork::Layer::$layer, $handlers);
            }
            #[used]
            #[unsafe(link_section = ".init_array")]
            static CONSTRUCTOR: extern "C" fn() = constructor;
        };
    };
}

/// Is a layer known? For tests.
#[doc(hidden)]
#[must_use]
pub fn is_announced(layer: Layer) -> bool {
    handlers_of(layer as usize).is_some()
}

/// How many times this process has gone through the prepare handler.
#[must_use]
pub fn prepared_count() -> usize {
    // Relaxed: a counter for tests and reports; nothing is published through it.
    PREPARED.load(Ordering::Relaxed)
}

fn handlers_of(layer: usize) -> Option<&'static Handlers> {
    // Acquire pairs with the Release in `announce`.
    let address = ANNOUNCED[layer].load(Ordering::Acquire);
    let handlers = core::ptr::with_exposed_provenance::<Handlers>(address);
    // SAFETY: the address is 0 or that of a `&'static Handlers`.
    unsafe { handlers.as_ref() }
}

/// Runs a handler of every layer that has prepared, the lowest first, and ends the fork.
fn finish(run: impl Fn(&Handlers)) {
    // Relaxed, both: under the lock, which the forking thread holds.
    let ready = READY.load(Ordering::Relaxed);
    let layers = (0..LAYERS).filter(|layer| ready & (1 << layer) != 0);
    layers.filter_map(handlers_of).for_each(run);
    READY.store(0, Ordering::Relaxed);
    // SAFETY: taken in `prepare` by the thread that forked, without a guard.
    unsafe { PREPARING.release() };
}

extern "C" fn prepare() {
    // Relaxed, all: counters, see `prepared_count`, and what is under the lock.
    PREPARED.fetch_add(1, Ordering::Relaxed);
    settle();
    if PREPARING.is_held_for_fork() {
        NESTED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    PREPARING.acquire();
    for layer in (0..LAYERS).rev() {
        if let Some(handlers) = handlers_of(layer) {
            (handlers.prepare)();
            READY.fetch_or(1 << layer, Ordering::Relaxed);
        }
    }
}

extern "C" fn parent() {
    // Relaxed, here and below: under the lock.
    if NESTED.load(Ordering::Relaxed) > 0 {
        NESTED.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    finish(|handlers| (handlers.parent)());
}

/// In the child of a nested fork there is no fork under way any more: the handlers of the outer one
/// find nothing to give back.
extern "C" fn child() {
    if PREPARING.is_held_for_fork() {
        begin_process();
        finish(|handlers| (handlers.child)());
    }
}

/// In a child that no handler has prepared: does what handlers do, before and after a fork.
fn recover() {
    begin_process();
    PREPARING.acquire();
    // Relaxed, here and below: the child has one thread.
    READY.store(0, Ordering::Relaxed);
    for layer in 0..LAYERS {
        if let Some(handlers) = handlers_of(layer) {
            (handlers.recover)();
            READY.fetch_or(1 << layer, Ordering::Relaxed);
        }
    }
    finish(|handlers| (handlers.child)());
}

/// In a child, before its handlers run: these may use everything that settles.
fn begin_process() {
    // Relaxed, all: the child has one thread.
    NESTED.store(0, Ordering::Relaxed);
    PROCESS.store(process::id(), Ordering::Relaxed);
    let (generation, thread) = (generation(), tls::thread_pointer());
    if FORKER.swap(thread, Ordering::Relaxed) != thread {
        FORKER_SINCE.store(generation, Ordering::Relaxed);
    }
    GENERATION.store(generation + 1, Ordering::Relaxed);
    let mark = mark();
    if !core::ptr::eq(mark, &raw const UNKNOWN) {
        mark.store(1, Ordering::Relaxed);
    }
}

/// How many forks there are between this process and the first that has loaded this object.
#[inline]
pub(crate) fn generation() -> usize {
    // Relaxed: changes where there is one thread.
    GENERATION.load(Ordering::Relaxed)
}

/// Is a thread of a generation not in this process? `generation` is the number's lowest bits, as
/// many as `mask` has: 2^16 forks within each other are told apart.
pub(crate) fn is_gone(thread: usize, generation: usize, mask: usize) -> bool {
    // Relaxed, all: change where there is one thread.
    let age = |number: usize| self::generation().wrapping_sub(number) & mask;
    let is_forker = thread == FORKER.load(Ordering::Relaxed)
        && age(generation) <= age(FORKER_SINCE.load(Ordering::Relaxed));
    age(generation) != 0 && !is_forker
}

#[inline]
fn mark() -> &'static AtomicU32 {
    // Relaxed: written when the object is loaded, before there are threads.
    let mark = MARK.load(Ordering::Relaxed);
    // SAFETY: a static, or the page, which is never unmapped.
    unsafe { &*mark }
}

/// Runs the child's handlers now, if this is a child in which they have not run.
///
/// Those of an object that registered earlier run before them, and may use everything: what they
/// find must not be what threads have left that are not there, such as sections that never end.
/// And a child of `_Fork` has no other moment. Called before a lock is taken, before something is
/// waited for that another thread does, and before a thread is started. Two loads and a compare.
#[inline]
pub fn settle() {
    // Relaxed: written where there is one thread.
    if mark().load(Ordering::Relaxed) == 0 {
        settle_slow();
    }
}

#[cold]
fn settle_slow() {
    let is_known = !core::ptr::eq(mark(), &raw const UNKNOWN);
    // Relaxed: as in `settle`.
    if !is_known && PROCESS.load(Ordering::Relaxed) == process::id() {
        return;
    }
    if PREPARING.is_held_for_fork() {
        child();
    } else {
        recover();
    }
}

/// Makes the page that the kernel clears in children. Before there are threads.
fn make_mark() {
    let bytes = map::page_bytes();
    let made = map::anywhere(bytes).filter(|page| map::wipe_on_fork(*page, bytes));
    let page = made.map(core::ptr::with_exposed_provenance_mut::<AtomicU32>);
    // SAFETY: a page of its own, which is never unmapped.
    if let Some(mark) = page.map(|page| unsafe { &*page }) {
        // Relaxed: one thread.
        mark.store(1, Ordering::Relaxed);
    }
    // Relaxed, both: as above.
    PROCESS.store(process::id(), Ordering::Relaxed);
    MARK.store(page.unwrap_or((&raw const UNKNOWN).cast_mut()), Ordering::Relaxed);
}

/// Has children take themselves for processes that have settled, for a test that has to fail.
#[doc(hidden)]
pub fn ignore_children() {
    // Relaxed: before what is tested.
    MARK.store((&raw const SETTLED).cast_mut(), Ordering::Relaxed);
}

/// Has libc call these handlers around each fork; later calls do nothing.
///
/// Those of objects that register after this run before them in the prepare phase, while no lock is
/// held, and after them in parent and child. Those of objects that register earlier run while the
/// forking thread has all locks: they may allocate and free, for such a thread enters its locks
/// again, but must not wait for threads that do.
pub fn register() {
    // Relaxed: constructors run in one thread.
    if IS_REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    make_mark();
    // SAFETY: the handlers are functions of this object, which is never unloaded.
    let status = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if status != 0 {
        crate::report::report(format_args!("pthread_atfork failed: fork with threads is unsafe"));
    }
}

static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Runs [`register`] when the object is loaded, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = {
    extern "C" fn constructor() {
        register();
    }
    constructor
};
