//! Threads: their ids and names, starting, sleeping, signal masks.

use core::ffi::{CStr, c_void};
use core::fmt::Write as _;
use core::mem::zeroed;
use core::ptr::{null, null_mut};

use crate::lock::Lock;
use crate::topology::Affinity;

pub use crate::key::{prepare_at_exit, set_at_exit};

/// The kernel's id of the calling thread. One system call, about 0.1 us. Async-signal-safe.
#[must_use]
pub fn id() -> i32 {
    // SAFETY: gettid has no precondition.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    i32::try_from(id).unwrap_or(0)
}

/// False when no thread of this process has this id. Async-signal-safe. The kernel may give the id
/// to another thread as soon as this one has ended.
#[must_use]
pub fn is_alive(id: i32) -> bool {
    crate::errno::preserve(|| {
        // SAFETY: signal 0 is checked and not sent.
        let status = unsafe { libc::syscall(libc::SYS_tgkill, crate::process::id(), id, 0) };
        status == 0 || crate::errno::get() != libc::ESRCH
    })
}

/// Number of threads of this process, 0 where it cannot be read. One system call. Never allocates.
#[must_use]
pub fn count() -> usize {
    // SAFETY: an all-zero value is valid to be filled.
    let mut tasks: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a C string, and a buffer for the call to fill.
    let stat = || unsafe { libc::stat(c"/proc/self/task".as_ptr(), &raw mut tasks) };
    match crate::errno::preserve(stat) {
        // A folder has one link for each folder in it, and two more.
        0 => (tasks.st_nlink as usize).saturating_sub(2),
        _ => 0,
    }
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

/// The function that a thread of the library runs. It never returns, so that the thread exists
/// while [`spawn`] sets its scheduling.
pub type Body = fn() -> !;

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
    // SAFETY: a number in glibc, an address in musl.
    let mut thread: libc::pthread_t = unsafe { zeroed() };
    with_signals_blocked(|| {
        crate::errno::preserve(|| {
            let argument = body as *mut c_void;
            // SAFETY: the attributes are the default ones, and `run` takes the address of a `Body`.
            let status = unsafe { libc::pthread_create(&raw mut thread, null(), run, argument) };
            if status == 0 {
                schedule_like_process(thread);
                // SAFETY: the thread was just made, and nothing joins it.
                unsafe { libc::pthread_detach(thread) };
            }
            status == 0
        })
    })
}

/// Gives a new thread, which has policy and affinity of the calling one, those of the process. Not
/// done by the thread itself: its creator may keep it from running. No call where nothing differs:
/// a sandbox may forbid it.
fn schedule_like_process(thread: libc::pthread_t) {
    // SAFETY: integers only. musl's own function always fails.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if policy != libc::SCHED_OTHER.into() {
        // SAFETY: integers only; more of them in musl, which the kernel does not see.
        let priority: libc::sched_param = unsafe { zeroed() };
        // SAFETY: the thread is not detached yet; the parameter is valid.
        unsafe { libc::pthread_setschedparam(thread, libc::SCHED_OTHER, &raw const priority) };
    }
    let (affinity, _) = *PROCESS.lock();
    if let Some(affinity) = affinity.filter(|wanted| Affinity::current() != Some(*wanted)) {
        let (mask, size) = affinity.as_raw();
        // SAFETY: as above; the mask is valid for its size.
        unsafe { libc::pthread_setaffinity_np(thread, size, mask) };
    }
}

/// The start routine of each thread.
extern "C" fn run(body: *mut c_void) -> *mut c_void {
    let wanted = PROCESS.lock().1;
    if nice(0) != wanted {
        // SAFETY: integers only. Where the call is refused the thread keeps its creator's nice
        // value.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
    }
    // SAFETY: from `spawn`.
    let body = unsafe { core::mem::transmute::<*mut c_void, Body>(body) };
    body()
}

#[cfg(test)]
#[path = "../tests/unit/thread.rs"]
mod tests;
