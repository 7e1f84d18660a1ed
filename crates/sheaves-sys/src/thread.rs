//! Threads: their ids and names, starting, sleeping, signal masks.

use core::ffi::{CStr, c_void};
use core::fmt::Write as _;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};

use crate::lock::Lock;
use crate::topology::Affinity;

pub use crate::key::{prepare_at_exit, set_at_exit};

/// The kernel's number of the calling thread. One system call, about 0.1 us. Async-signal-safe.
#[must_use]
pub fn id() -> i32 {
    // SAFETY: gettid has no precondition.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    i32::try_from(id).unwrap_or(0)
}

/// False when no thread of this process has that number. Async-signal-safe.
///
/// The kernel may give the id to another thread as soon as this one has ended.
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

/// Reads the name of a thread of this process into `name` and returns its length, 0 where it cannot
/// be read. Async-signal-safe.
pub fn name(id: i32, name: &mut [u8; NAME_BYTES]) -> usize {
    let mut path = crate::report::Line::new();
    let _ = write!(path, "/proc/self/task/{id}/comm\0");
    let Ok(path) = CStr::from_bytes_with_nul(path.as_bytes()) else { return 0 };
    let read = || crate::process::read_file(path, name).unwrap_or(0);
    let used = crate::errno::preserve(read);
    if used > 0 && name[used - 1] == b'\n' { used - 1 } else { used }
}

/// Names the calling thread. At most [`NAME_BYTES`] are kept, with the terminator.
pub fn set_name(name: &CStr) {
    // SAFETY: the name is a C string; the kernel copies its beginning.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Sleeps. Async-signal-safe; a signal may end it early. Not a cancellation point: the caller may
/// hold what other threads wait for.
pub fn sleep_ns(nanoseconds: u64) {
    let duration = crate::clock::duration(nanoseconds);
    let no_rest = null_mut::<libc::timespec>();
    crate::errno::preserve(|| {
        // SAFETY: the duration is valid, and a null pointer asks for no remaining time.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const duration, no_rest) }
    });
}

/// Runs `body` with all signals blocked, for steps that a handler in the same thread must not find
/// half done. Two system calls. Async-signal-safe.
pub fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: an all-zero set is valid to be filled.
    let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    let result = body();
    // SAFETY: the set was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    result
}

/// Affinity and nice value of the main thread when this object was loaded.
static PROCESS: Lock<(Option<Affinity>, i32)> = Lock::new((None, 0));

crate::run_when_loaded!({
    let process = crate::process::id();
    *PROCESS.lock() = (Affinity::of(process), nice(process));
});

/// The nice value of a thread; 0 stands for the calling one.
fn nice(thread: i32) -> i32 {
    // SAFETY: integers only.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.cast_unsigned()) }
}

/// The function that a thread of the library runs.
pub type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a detached thread with all signals blocked. False when the system refuses; `errno` is
/// kept.
///
/// The thread does not inherit the scheduling of its creator, which may have a realtime policy or
/// be bound to one CPU. It gets `SCHED_OTHER`, and the affinity and nice value that the main thread
/// had when this library was loaded, as far as the system permits.
///
/// libc allocates for it: never call it below `malloc` or under a lock.
#[must_use]
pub fn spawn(body: Body) -> bool {
    crate::lock::assert_none_held();
    crate::fork::run_pending_handlers();
    // No call where nothing differs: a sandbox may forbid it.
    let start_detached =
        || (differs_from_process() && start_like_process(body)) || start(null(), body);
    with_signals_blocked(|| crate::errno::preserve(start_detached))
}

/// True when policy or affinity of the calling thread differ from those of the process.
fn differs_from_process() -> bool {
    // SAFETY: integers only.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy != libc::SCHED_OTHER || PROCESS.lock().0 != Affinity::current()
}

/// Starts a thread with the policy and affinity of the process; false where that is refused.
fn start_like_process(body: Body) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: valid for the call to fill.
    if unsafe { libc::pthread_attr_init(attributes) } != 0 {
        return false;
    }
    // SAFETY: initialised above; the same holds below.
    let mut status =
        unsafe { libc::pthread_attr_setinheritsched(attributes, libc::PTHREAD_EXPLICIT_SCHED) };
    // SAFETY: as above.
    status |= unsafe { libc::pthread_attr_setschedpolicy(attributes, libc::SCHED_OTHER) };
    // Without this libc uses the creator's priority, which is invalid for `SCHED_OTHER`.
    let no_priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above; the parameter is valid.
    status |= unsafe { libc::pthread_attr_setschedparam(attributes, &raw const no_priority) };
    let (affinity, _) = *PROCESS.lock();
    if let Some((mask, size)) = affinity.as_ref().map(Affinity::as_raw) {
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
    // SAFETY: the attributes are null or valid, and `run` takes the address of a `Body`.
    let status =
        unsafe { libc::pthread_create(&raw mut thread, attributes, run, body as *mut c_void) };
    if status == 0 {
        // SAFETY: the thread was just made, and nothing joins it.
        unsafe { libc::pthread_detach(thread) };
    }
    status == 0
}

/// The start routine of each thread.
extern "C" fn run(body: *mut c_void) -> *mut c_void {
    let wanted = PROCESS.lock().1;
    if nice(0) != wanted {
        // SAFETY: integers only. Where the call is refused the thread keeps its creator's nice
        // value.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
    }
    // SAFETY: from `start`.
    let body = unsafe { core::mem::transmute::<*mut c_void, Body>(body) };
    body(null_mut())
}

#[cfg(test)]
#[path = "../tests/unit/thread.rs"]
mod tests;
