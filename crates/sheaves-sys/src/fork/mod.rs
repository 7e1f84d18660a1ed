//! The fork registry: one `pthread_atfork` registration for all layers.
//!
//! Each layer announces its [`Handlers`] once. Before a fork the highest layer takes its locks
//! first, the order in which a call takes them; after a fork the lowest layer runs first. In
//! between the forking thread may use everything, as it can re-enter its locks ([`crate::lock`]).
//!
//! Other threads go on meanwhile, on fast paths and up to the first lock. The child has each of
//! them at one of its instructions: all stores before it, none after it, and with a store all that
//! its thread had seen. For the kernel write-protects the pages while it holds the lock that page
//! faults take, and flushes the processors' translations before it releases it (`dup_mmap`). A
//! store that meets a protected page waits for the end of the fork; one by an old translation is in
//! the page that both processes have. (Not in Linux 6.4.0 to 6.4.2, and in pages that a driver has
//! pinned, in which the library has no word.) So a change of one store has happened in the child or
//! not, and what another thread had in its hands is unused there for ever, and nowhere twice.
//!
//! `ARCHITECTURE.md` says what becomes of a child whose fork ran no handlers: it detects that at
//! its first call of [`run_pending_handlers`], by a page that the kernel clears in every child.
//!
//! | word of the page | meaning | written by |
//! |---|---|---|
//! | 1 | no handlers are pending | [`register`]; the child, before its handlers run |
//! | 0 | a child whose handlers have not run | the kernel |

use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::lock::word::Word;
use crate::{map, process, tls};

pub(crate) mod attempt;
pub(crate) mod generation;
mod macros;

pub use generation::{age_ms, generation, is_gone, note_use};

/// What one layer does around a fork. The functions must neither allocate nor fail.
#[derive(Debug, Clone, Copy)]
pub struct Handlers {
    /// In the parent before the fork: take every lock of the layer.
    pub prepare: fn(),
    /// In the parent after the fork: release the locks.
    pub parent: fn(),
    /// In the child: release the locks and forget the other threads.
    pub child: fn(),
}

/// The layers, from the lowest to the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Layer {
    /// `sheaves-percpu`.
    PerCpu = 0,
    /// `sheaves-rcu`: the records of readers.
    Readers = 1,
    /// `sheaves-rcu`: grace periods.
    GracePeriods = 2,
    /// `sheaves-rcu`: what is deferred.
    Deferred = 3,
    /// `sheaves-rcu`: futures that wait.
    Futures = 4,
    /// `sheaves-slab`.
    Slab = 5,
    /// `sheaves-heap`.
    Heap = 6,
    /// `sheaves-control`.
    Control = 7,
}

const LAYERS: usize = 8;

/// The layers' handlers, null while absent. Written by [`announce`].
#[unsafe(link_section = ".sheaves_load")]
static ANNOUNCED: [AtomicPtr<Handlers>; LAYERS] = [const { AtomicPtr::new(null_mut()) }; LAYERS];

/// Held from the first handler to the last, which makes one fork wait for another.
#[unsafe(link_section = ".sheaves_load")]
static PREPARING: Word = Word::new();
/// The layers that have prepared for the current fork, one bit each. A layer that is announced
/// during a fork has nothing to release. Changes under [`PREPARING`].
#[unsafe(link_section = ".sheaves_load")]
static READY: AtomicUsize = AtomicUsize::new(0);
/// Forks that a signal handler makes while the thread runs the handlers of another fork, which has
/// the locks already. Changes under [`PREPARING`].
#[unsafe(link_section = ".sheaves_load")]
static NESTED: AtomicUsize = AtomicUsize::new(0);

/// With [`UNKNOWN`]: the last process in which no handlers were pending. Written while it has one
/// thread.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The word of the table above: in the page; [`NONE`] before the page exists; [`UNKNOWN`] if the
/// kernel refuses the page.
#[unsafe(link_section = ".sheaves_load")]
static NONE_PENDING: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NONE).cast_mut());
static NONE: AtomicU32 = AtomicU32::new(1);
/// With this one the process id is compared with [`PROCESS`] each time.
static UNKNOWN: AtomicU32 = AtomicU32::new(0);

/// The fork is one of a process with one thread. Then no other thread can hold a lock: the handlers
/// take none, and so no page is copied for its word. Changes under [`PREPARING`].
#[unsafe(link_section = ".sheaves_load")]
static IS_ALONE: AtomicBool = AtomicBool::new(false);

/// The current fork has all locks. Changes under [`PREPARING`].
static HAS_ALL: AtomicBool = AtomicBool::new(false);

/// Number of runs of the prepare handler: a test can prove that the registration works.
#[unsafe(link_section = ".sheaves_load")]
static PREPARED: AtomicUsize = AtomicUsize::new(0);

/// Announces a layer's handlers; announcing the same ones again changes nothing.
pub fn announce(layer: Layer, handlers: &'static Handlers) {
    // Release pairs with the Acquire in `handlers_of`: what the layer has set up.
    let handlers = core::ptr::from_ref(handlers).cast_mut();
    ANNOUNCED[layer as usize].store(handlers, Ordering::Release);
}

/// Number of runs of the prepare handler in this process.
pub fn prepared_count() -> usize {
    // Relaxed: a counter for tests and reports; nothing is published through it.
    PREPARED.load(Ordering::Relaxed)
}

/// True while the calling thread runs the handlers of a fork, with all locks: it must not wait for
/// readers, which may wait for these.
pub fn is_in_progress_here() -> bool {
    PREPARING.is_forking()
}

/// For handlers: true in a fork of a process with one thread. They take no lock for it, and no
/// other thread has left anything half done in the child.
pub fn is_alone() -> bool {
    // Relaxed: read by the thread that forks.
    IS_ALONE.load(Ordering::Relaxed)
}

/// A layer's handlers, once it has announced itself.
#[doc(hidden)]
pub fn handlers_of(layer: usize) -> Option<&'static Handlers> {
    // Acquire pairs with the Release in `announce`.
    let handlers = ANNOUNCED[layer].load(Ordering::Acquire);
    // SAFETY: null, or from a `&'static Handlers`.
    unsafe { handlers.as_ref() }
}

/// Runs a handler of every layer that has prepared, the lowest first, and ends the fork.
fn finish(run: impl Fn(&Handlers)) {
    // Relaxed, all: under the lock, which the forking thread holds.
    HAS_ALL.store(false, Ordering::Relaxed);
    let ready = READY.load(Ordering::Relaxed);
    let layers = (0..LAYERS).filter(|layer| ready & (1 << layer) != 0);
    layers.filter_map(handlers_of).for_each(run);
    READY.store(0, Ordering::Relaxed);
    IS_ALONE.store(false, Ordering::Relaxed);
    // SAFETY: taken in `prepare` or `run_late_handlers`, by this thread.
    unsafe { PREPARING.release_after_fork() };
}

extern "C" fn prepare() {
    // Relaxed, all: counters, see `prepared_count`, and data under the lock.
    PREPARED.fetch_add(1, Ordering::Relaxed);
    run_pending_handlers();
    if PREPARING.is_forking() {
        NESTED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let mut has_all = false;
    // Once, but in the child of a handler that has interrupted this and forked, and released all.
    while !PREPARING.is_forking() {
        // Not in a signal handler that has interrupted the acquisition of this very word.
        if tls::locks() == 0 && !PREPARING.is_owned_here() {
            PREPARING.acquire_for_fork();
        } else if PREPARING.try_acquire() {
            PREPARING.note_fork();
        } else {
            // Another fork may wait for a lock of the code that a signal handler interrupts here.
            return;
        }
        IS_ALONE.store(tls::is_single_threaded(), Ordering::Relaxed);
        has_all = prepare_layers();
    }
    if has_all {
        HAS_ALL.store(true, Ordering::Relaxed);
    } else {
        finish(|handlers| (handlers.parent)());
    }
}

/// Takes all locks, those of the highest layer first. Under [`PREPARING`].
fn prepare_layers() -> bool {
    attempt::begin();
    for layer in (0..LAYERS).rev() {
        if let Some(handlers) = handlers_of(layer) {
            (handlers.prepare)();
            // Relaxed: under the lock.
            READY.fetch_or(1 << layer, Ordering::Relaxed);
        }
    }
    attempt::has_all()
}

extern "C" fn parent() {
    if !PREPARING.is_forking() {
        // The fork was not prepared.
        return;
    }
    // Relaxed, here and below: under the lock.
    if NESTED.load(Ordering::Relaxed) > 0 {
        NESTED.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    finish(|handlers| (handlers.parent)());
}

/// In the child of a nested fork no fork is in progress any more: the handlers of the outer fork
/// find nothing to release.
extern "C" fn child() {
    if is_prepared() {
        begin_process();
        finish(|handlers| (handlers.child)());
    } else {
        run_pending_handlers();
    }
}

/// See [`is_late`].
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// For a handler that runs in a child: true if it runs some time after the fork, inside a call of
/// the library. Then it makes no system call that such a call would not make.
pub fn is_late() -> bool {
    // Relaxed: the child has one thread.
    IS_LATE.load(Ordering::Relaxed)
}

/// Does what the handlers do before and after a fork, in a child whose fork was not prepared.
fn run_late_handlers() {
    // Relaxed, all: the child has one thread.
    IS_LATE.store(true, Ordering::Relaxed);
    begin_process();
    PREPARING.acquire_for_fork();
    READY.store(0, Ordering::Relaxed);
    // No thread is left that would keep a lock.
    let _has_all = prepare_layers();
    finish(|handlers| (handlers.child)());
    IS_LATE.store(false, Ordering::Relaxed);
}

/// Ends a child whose fork was not prepared, and cannot be made up for.
pub(crate) fn die_unprepared() -> ! {
    crate::report::die(format_args!(
        "a process made by _Fork, clone, or fork in a signal handler cannot use the heap: another \
         thread was changing it (use fork, or call execve first)"
    ));
}

/// In a child, before its handlers run: these may call [`run_pending_handlers`].
fn begin_process() {
    crate::restart_word!(NESTED, 0);
    generation::begin();
    set_none_pending();
}

fn set_none_pending() {
    let word = pending_word();
    // Relaxed, both: the process has one thread.
    if core::ptr::eq(word, &raw const UNKNOWN) {
        PROCESS.store(process::id(), Ordering::Relaxed);
    } else {
        word.store(1, Ordering::Relaxed);
    }
}

#[inline]
fn pending_word() -> &'static AtomicU32 {
    // Relaxed: written when the object is loaded, before there are threads.
    let word = NONE_PENDING.load(Ordering::Relaxed);
    // SAFETY: a static, or the page, which is never unmapped.
    unsafe { &*word }
}

/// Runs the child's handlers now, if this is a child in which they have not run.
///
/// Called before a lock is taken, before a thread waits for an action of another, and before a
/// thread is started: also in handlers of other objects, which may run before those of this one.
/// Two loads and a compare.
#[inline]
pub fn run_pending_handlers() {
    // Relaxed: written where there is one thread.
    if pending_word().load(Ordering::Relaxed) == 0 {
        run_pending_handlers_slow();
    }
}

/// True in a child in which its handlers have not run yet. Async-signal-safe.
pub fn is_pending() -> bool {
    let word = pending_word();
    // Relaxed, both: as in `run_pending_handlers`.
    word.load(Ordering::Relaxed) == 0
        && !(core::ptr::eq(word, &raw const UNKNOWN)
            && PROCESS.load(Ordering::Relaxed) == process::id())
}

#[cold]
fn run_pending_handlers_slow() {
    if !is_pending() {
        return;
    }
    if is_prepared() {
        child();
    } else {
        run_late_handlers();
    }
}

/// True while the calling thread has all locks for a fork: not while it takes or releases them.
fn is_prepared() -> bool {
    // Relaxed: under the lock.
    PREPARING.is_forking() && HAS_ALL.load(Ordering::Relaxed)
}

/// Maps the page that the kernel clears in children. Before there are threads.
fn map_word() {
    let bytes = map::page_bytes();
    let page = map::anywhere(bytes).filter(|page| map::wipe_on_fork(*page, bytes));
    let word = page.map_or((&raw const UNKNOWN).cast_mut(), with_exposed_provenance_mut);
    // Relaxed: one thread.
    NONE_PENDING.store(word, Ordering::Relaxed);
    set_none_pending();
}

/// Hides from children that their handlers are pending, for a test that must fail.
#[doc(hidden)]
pub fn ignore_children() {
    // Relaxed: before the code under test runs.
    NONE_PENDING.store((&raw const NONE).cast_mut(), Ordering::Relaxed);
}

/// Registers these handlers with libc for each fork; later calls do nothing. Called when the object
/// is loaded, and never inside an allocation, since libc allocates while it registers.
///
/// Handlers of objects that register after this run while no lock is held. Those of objects that
/// register earlier run while the forking thread has all locks: they may allocate and free, since
/// it re-enters them, but must not wait for threads that do, nor start the first other thread.
#[unsafe(link_section = ".text.sheaves_load")]
pub fn register() {
    #[unsafe(link_section = ".sheaves_load")]
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // Relaxed: constructors run in one thread.
    if IS_REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    map_word();
    // SAFETY: the handlers are functions of this object, which is never unloaded.
    let status = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if status != 0 {
        crate::report::report(format_args!("pthread_atfork failed: fork with threads is unsafe"));
    }
}

crate::run_when_loaded!(register());

#[cfg(all(test, target_arch = "x86_64"))]
#[path = "../../tests/unit/fork.rs"]
mod tests;
