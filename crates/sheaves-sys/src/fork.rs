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
//! `_Fork` and a bare `clone` run no handlers: in the child of a program with threads, what these
//! held stays held, and the child must not use what is guarded by locks.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use crate::lock::Lock;
use crate::process;

/// What one layer does around a fork. All three must neither allocate nor fail.
#[derive(Debug, Clone, Copy)]
pub struct Handlers {
    /// In the parent before the fork: take every lock of the layer.
    pub prepare: fn(),
    /// In the parent after the fork: give the locks back.
    pub parent: fn(),
    /// In the child: give the locks back and forget the other threads.
    pub child: fn(),
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

/// The process that prepares a fork. Changes under [`PREPARING`].
static PARENT: AtomicI32 = AtomicI32::new(0);

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
    if PREPARING.is_held_for_fork() {
        NESTED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    PREPARING.acquire();
    PARENT.store(process::id(), Ordering::Relaxed);
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
    // Relaxed, both: the child has one thread.
    NESTED.store(0, Ordering::Relaxed);
    PARENT.store(process::id(), Ordering::Relaxed);
    finish(|handlers| (handlers.child)());
}

/// Runs the child's handlers now, if this is a child whose handlers are still to come.
///
/// Those of an object that registered earlier run before them, and may use everything: what they
/// find must not be what threads have left that are not there, such as sections that never end.
/// Called where the forking thread enters a lock again, and before it waits or starts a thread. One
/// load and compare where no fork of the calling thread is under way.
#[inline]
pub fn settle() {
    if PREPARING.is_held_for_fork() {
        settle_slow();
    }
}

#[cold]
fn settle_slow() {
    // Relaxed: written by this thread, or the one it was in the parent.
    if PARENT.load(Ordering::Relaxed) != process::id() {
        child();
    }
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
