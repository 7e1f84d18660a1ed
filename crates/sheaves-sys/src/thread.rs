//! Threads: who is who, who is gone, and what a thread gives back at its end.
//!
//! Nothing here uses a thread-local destructor of the language. What a thread has is announced as
//! the value of a key of libc ([`set_at_exit`]), whose function runs after those destructors.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::fmt::Write as _;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::topology::Affinity;

/// The kernel's number of the calling thread. One system call, about 0.1 us. Async-signal-safe.
#[must_use]
pub fn id() -> i32 {
    // SAFETY: gettid has no precondition.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    i32::try_from(id).unwrap_or(0)
}

/// False when no thread of this process has that number. Async-signal-safe.
///
/// A number can be given to another thread as soon as its first owner is gone.
#[must_use]
pub fn is_alive(id: i32) -> bool {
    crate::errno::preserve(|| {
        // SAFETY: signal 0 is checked and not sent.
        let status = unsafe { libc::syscall(libc::SYS_tgkill, crate::process::id(), id, 0) };
        status == 0 || crate::errno::get() != libc::ESRCH
    })
}

/// Bytes of a thread's name with its final newline.
pub const NAME_BYTES: usize = 16;

/// The name of a thread of this process into `name`; its length, 0 where it cannot be read.
/// Async-signal-safe.
pub fn name(id: i32, name: &mut [u8; NAME_BYTES]) -> usize {
    let mut path = crate::report::Line::new();
    let _ = write!(path, "/proc/self/task/{id}/comm\0");
    let Ok(path) = CStr::from_bytes_with_nul(path.as_bytes()) else { return 0 };
    let read = || crate::process::read_file(path, name).unwrap_or(0);
    let used = crate::errno::preserve(read);
    if used > 0 && name[used - 1] == b'\n' { used - 1 } else { used }
}

/// Names the calling thread, in at most [`NAME_BYTES`] with the terminator; more is cut off.
pub fn set_name(name: &CStr) {
    // SAFETY: the name is a C string, of which the kernel copies the beginning.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Sleeps. Async-signal-safe; a signal may end it early. Not a cancellation point: who sleeps here
/// has something in its hands that others wait for.
pub fn sleep_ns(nanoseconds: u64) {
    let duration = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000).cast_signed(),
        tv_nsec: (nanoseconds % 1_000_000_000).cast_signed(),
    };
    let no_rest = null_mut::<libc::timespec>();
    crate::errno::preserve(|| {
        // SAFETY: the duration is valid, and the rest is not asked for.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const duration, no_rest) }
    });
}

/// Runs `body` without a signal handler in between, for steps that a handler of the same thread
/// must not meet half done. Two system calls. Async-signal-safe.
pub fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    let before = block_signals();
    let result = body();
    restore_signals(&before);
    result
}

/// Blocks all signals in the calling thread: the mask that was in force.
fn block_signals() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid to be filled.
    let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the set was filled by `block_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
}

/// Keys below this one have their value in the thread's own memory: setting it never allocates.
const KEYS_AT_HAND: u32 = 32;
/// States of [`KEY`] other than a key's number.
const NO_KEY: u32 = u32::MAX;
const KEY_REFUSED: u32 = u32::MAX - 1;

/// The key. Written once, by whoever calls [`prepare_at_exit`] first.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

/// Has `function` called at the end of every thread whose value is not null, with that value.
///
/// libc clears the value first, and goes round up to four times while functions set values anew.
/// Call it early, so that the key is one of the first 32; beyond these nothing is announced,
/// because that would allocate. The first function stays for good.
pub fn prepare_at_exit(function: unsafe extern "C" fn(*mut c_void)) {
    // Relaxed, here and below: a number, which publishes nothing.
    if KEY.load(Ordering::Relaxed) != NO_KEY {
        return;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: the key is valid for the call to fill; functions of ours are never unloaded.
    let status = unsafe { libc::pthread_key_create(&raw mut key, Some(function)) };
    let usable = status == 0 && key < KEYS_AT_HAND;
    let made = if usable { key } else { KEY_REFUSED };
    let won = KEY.compare_exchange(NO_KEY, made, Ordering::Relaxed, Ordering::Relaxed);
    if status == 0 && (won.is_err() || !usable) {
        // SAFETY: made above and known to nobody.
        let _ = unsafe { libc::pthread_key_delete(key) };
    }
}

/// Is there a key, after [`prepare_at_exit`]?
#[must_use]
pub fn has_key() -> bool {
    // Relaxed: a number, which publishes nothing.
    KEY.load(Ordering::Relaxed) < KEYS_AT_HAND
}

/// Sets the address with which the function of [`prepare_at_exit`] is called for this thread, 0
/// for not at all. False where there is no key. Async-signal-safe in practice: it stores to the
/// thread's own memory.
pub fn set_at_exit(value: usize) -> bool {
    // Relaxed: a number, which publishes nothing.
    let key = KEY.load(Ordering::Relaxed);
    let value = core::ptr::with_exposed_provenance(value);
    // SAFETY: the key was made by `prepare_at_exit` and is never deleted once it is in `KEY`.
    key < KEYS_AT_HAND && unsafe { libc::pthread_setspecific(key, value) } == 0
}

/// What was set by [`set_at_exit`] for this thread; null where nothing was.
#[must_use]
pub fn at_exit() -> *mut c_void {
    // Relaxed: a number, which publishes nothing.
    let key = KEY.load(Ordering::Relaxed);
    if key >= KEYS_AT_HAND {
        return null_mut();
    }
    // SAFETY: as in `set_at_exit`.
    unsafe { libc::pthread_getspecific(key) }
}

/// How the process runs: what its main thread was allowed when this object was loaded. Written by
/// [`note_process`], before there are threads of this library.
struct Process(UnsafeCell<(Option<Affinity>, i32)>);

// SAFETY: written once, when the object is loaded, before anything here is called.
unsafe impl Sync for Process {}

static PROCESS: Process = Process(UnsafeCell::new((None, 0)));

extern "C" fn note_process() {
    let process = crate::process::id();
    // SAFETY: nobody else uses it yet.
    unsafe { *PROCESS.0.get() = (Affinity::of(process), nice(process)) };
}

/// Runs [`note_process`] when the object is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PROCESS: extern "C" fn() = note_process;

fn process() -> &'static (Option<Affinity>, i32) {
    // SAFETY: not written any more.
    unsafe { &*PROCESS.0.get() }
}

/// The nice value of a thread, 0 for the calling one.
fn nice(thread: i32) -> i32 {
    // SAFETY: integers only.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.cast_unsigned()) }
}

/// What a thread of the library runs.
pub type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a thread that nobody joins, with all signals blocked. False when there can be none;
/// `errno` is kept.
///
/// It does not inherit how its creator runs: perhaps by a realtime policy, bound to a processor
/// that it never leaves to others. It has the default policy, and the processors and the nice value
/// that the process's main thread had when this library was loaded, as far as the system permits.
///
/// libc allocates for it: never below `malloc`, nor under a lock.
#[must_use]
pub fn spawn(body: Body) -> bool {
    crate::lock::assert_none_held();
    crate::fork::settle();
    let before = block_signals();
    // Where nothing differs nothing is asked of the system, which may forbid it in a sandbox.
    let started = crate::errno::preserve(|| {
        (runs_otherwise() && start_as_process(body)) || start(core::ptr::null(), body)
    });
    restore_signals(&before);
    started
}

/// Has the calling thread another policy or other processors than the process?
fn runs_otherwise() -> bool {
    // SAFETY: integers only.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy != libc::SCHED_OTHER || process().0 != Affinity::current()
}

/// Starts a thread that runs as the process does; false where that is refused.
fn start_as_process(body: Body) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: valid for the call to fill.
    if unsafe { libc::pthread_attr_init(attributes) } != 0 {
        return false;
    }
    // SAFETY: initialised above; here and below.
    let mut status =
        unsafe { libc::pthread_attr_setinheritsched(attributes, libc::PTHREAD_EXPLICIT_SCHED) };
    // SAFETY: as above.
    status |= unsafe { libc::pthread_attr_setschedpolicy(attributes, libc::SCHED_OTHER) };
    // Without this libc takes the creator's priority, which the policy may not have.
    let no_priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above; the parameter is valid.
    status |= unsafe { libc::pthread_attr_setschedparam(attributes, &raw const no_priority) };
    if let Some(affinity) = &process().0 {
        let (size, mask) = affinity.as_raw();
        // SAFETY: as above; the mask is valid for its size.
        status |= unsafe { libc::pthread_attr_setaffinity_np(attributes, size, mask) };
    }
    let started = status == 0 && start(attributes, body);
    // SAFETY: initialised above, and not used any more.
    unsafe { libc::pthread_attr_destroy(attributes) };
    started
}

fn start(attributes: *const libc::pthread_attr_t, body: Body) -> bool {
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the attributes are null or valid, and `run` takes the address of such a function.
    let status =
        unsafe { libc::pthread_create(&raw mut thread, attributes, run, body as *mut c_void) };
    if status == 0 {
        // SAFETY: the thread was just made and is joined by nobody.
        unsafe { libc::pthread_detach(thread) };
    }
    status == 0
}

/// The beginning of each thread.
extern "C" fn run(body: *mut c_void) -> *mut c_void {
    let wanted = process().1;
    if nice(0) != wanted {
        // SAFETY: integers only. Where it is refused the thread runs as its creator.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
    }
    // SAFETY: from `start`.
    let body = unsafe { core::mem::transmute::<*mut c_void, Body>(body) };
    body(null_mut())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn signals_wait_until_the_end() {
        // SAFETY: an all-zero set is valid to be filled.
        let mut pending: libc::sigset_t = unsafe { core::mem::zeroed() };
        with_signals_blocked(|| {
            // SAFETY: the signal is one that is ignored by default.
            unsafe { libc::raise(libc::SIGURG) };
            // SAFETY: the set is valid for writes.
            unsafe { libc::sigpending(&raw mut pending) };
        });
        // SAFETY: the set is valid.
        assert_eq!(unsafe { libc::sigismember(&raw const pending, libc::SIGURG) }, 1);
        let after = block_signals();
        restore_signals(&after);
        // SAFETY: the set is valid.
        assert_eq!(unsafe { libc::sigismember(&raw const after, libc::SIGURG) }, 0);
    }

    #[test]
    fn threads_have_numbers_and_names() {
        let mut text = [0; NAME_BYTES];
        assert!(is_alive(id()));
        assert!(name(id(), &mut text) > 0);
        let gone = std::thread::spawn(id).join().unwrap();
        // The kernel removes a thread shortly after it has let it be joined.
        let is_gone = (0..1000).any(|_| {
            sleep_ns(1_000_000);
            !is_alive(gone)
        });
        assert!(is_gone);
    }
}
