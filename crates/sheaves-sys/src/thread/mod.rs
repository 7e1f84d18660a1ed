//! Threads: their ids and names, starting, sleeping, signal masks.

use core::ffi::{CStr, c_void};
use core::mem::zeroed;
use core::ptr::{null, null_mut};

pub use crate::futex::sleep_ns;
use crate::topology::Affinity;

mod kernel_id;
pub(crate) mod key;
mod own;

pub use kernel_id::{id, is_alive, is_known_to_kernel};
pub use key::{Key, READERS};
pub use own::{STARTING, own, restart_in_child};

/// True if a thread of this process runs or waits for a CPU, at this moment. False where its state
/// cannot be read. For a thread that is about to enter a sandbox, and may have said so.
pub fn is_runnable(id: i32) -> bool {
    // The state follows the name, which is in parentheses and may contain some.
    let mut start = [0; 64];
    let path = format_args!("/proc/self/task/{id}/stat");
    let read = || crate::process::read_once_at(path, &mut start).unwrap_or(0);
    let used = crate::errno::preserve(read);
    let name_end = start[..used].iter().rposition(|byte| *byte == b')');
    name_end.is_some_and(|end| start[..used].get(end + 2) == Some(&b'R'))
}

/// Bytes of a thread's name with its final newline.
pub const NAME_BYTES: usize = 16;

/// Reads the name of a thread of this process into `name` and returns its length, 0 where it cannot
/// be read. Async-signal-safe.
pub fn name(id: i32, name: &mut [u8; NAME_BYTES]) -> usize {
    let path = format_args!("/proc/self/task/{id}/comm");
    let read = || crate::process::read_file_at(path, name).unwrap_or(0);
    let used = crate::errno::preserve(read);
    if used > 0 && name[used - 1] == b'\n' { used - 1 } else { used }
}

/// Names the calling thread. At most [`NAME_BYTES`] are kept, with the terminator.
pub fn set_name(name: &CStr) {
    // SAFETY: the name is a C string; the kernel copies its beginning.
    let _ = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The `pthread_t` of the thread with this thread pointer. libc has it at a distance from that
/// which is the same for all threads: 0 on x86-64.
#[must_use]
pub fn handle_of(pointer: usize) -> usize {
    // SAFETY: pthread_self has no precondition.
    let own = unsafe { libc::pthread_self() } as usize;
    own.wrapping_add(pointer.wrapping_sub(crate::tls::thread_pointer()))
}

/// Signals that an instruction of the thread itself raises, and a handler of the program may mend:
/// garbage collectors, just-in-time compilers and crash reporters have such handlers.
const RAISED_BY_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs `body` with the signals blocked that come from outside of the thread. Two system calls.
/// Async-signal-safe.
pub fn with_signals_blocked<R>(body: impl FnOnce() -> R) -> R {
    if cfg!(miri) {
        return body();
    }
    // SAFETY: an all-zero set is valid to be filled.
    let mut outside: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigfillset(&raw mut outside) };
    for signal in RAISED_BY_FAULTS {
        // SAFETY: as above.
        unsafe { libc::sigdelset(&raw mut outside, signal) };
    }
    // SAFETY: both sets are valid.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const outside, &raw mut before) };
    let result = body();
    // SAFETY: the set was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    result
}

/// The function that a thread of the library runs.
pub type Body = fn();

/// Starts a detached thread, with signals as in [`with_signals_blocked`]. False in a sandbox and
/// when the kernel refuses; `errno` is kept. It has policy, affinity and nice value of the main
/// thread, as far as the kernel permits: its creator may be bound to one CPU.
///
/// libc allocates for it: never call it below `malloc` or under a lock.
#[must_use]
pub fn spawn(body: Body) -> bool {
    crate::lock::assert_none_held();
    crate::fork::run_pending_handlers();
    if crate::sandbox::is_entered() {
        return false;
    }
    own::note_starting();
    let is_started = !crate::sandbox::is_entered() && create(body);
    if !is_started {
        own::change(STARTING, 0);
    }
    is_started
}

fn create(body: Body) -> bool {
    // SAFETY: a number in glibc, an address in musl.
    let mut thread: libc::pthread_t = unsafe { zeroed() };
    with_signals_blocked(|| {
        crate::errno::preserve(|| {
            let argument = body as *mut c_void;
            // SAFETY: the attributes are the default ones, and `run` takes the address of a `Body`.
            let status = unsafe { libc::pthread_create(&raw mut thread, null(), run, argument) };
            if status == 0 {
                schedule_like_main(thread);
                // SAFETY: the thread was just made, and nothing joins it.
                unsafe { libc::pthread_detach(thread) };
            }
            status == 0
        })
    })
}

/// Gives a new thread, which has policy and affinity of the calling one, those of the main thread.
/// Not done by the new thread: its creator may keep it from running. No call where nothing differs.
fn schedule_like_main(thread: libc::pthread_t) {
    let main = crate::process::id();
    let (wanted, own) = (Policy::of(main), Policy::of(0));
    if let Some(Policy { policy, priority }) = wanted.filter(|_| wanted != own) {
        // SAFETY: integers only; more of them in musl, which the kernel does not see.
        let mut parameter: libc::sched_param = unsafe { zeroed() };
        parameter.sched_priority = priority;
        // SAFETY: the thread is not detached yet; the parameter is valid.
        unsafe { libc::pthread_setschedparam(thread, policy, &raw const parameter) };
    }
    let affinity = Affinity::of(main).filter(|wanted| Affinity::current() != Some(*wanted));
    if let Some(affinity) = affinity {
        let (mask, size) = affinity.as_raw();
        // SAFETY: as above; the mask is valid for its size.
        unsafe { libc::pthread_setaffinity_np(thread, size, mask) };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Policy {
    /// That of a thread; 0 stands for the calling one. By bare system calls: musl's own functions
    /// always fail.
    fn of(thread: i32) -> Option<Policy> {
        let mut priority: libc::c_int = 0;
        // SAFETY: integers only.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) };
        // SAFETY: the kernel's parameter is one integer, valid for the call to fill.
        let status = unsafe { libc::syscall(libc::SYS_sched_getparam, thread, &raw mut priority) };
        let policy = libc::c_int::try_from(policy).ok().filter(|policy| *policy >= 0);
        policy.filter(|_| status == 0).map(|policy| Policy { policy, priority })
    }
}

/// The nice value of a thread; 0 stands for the calling one.
fn nice(thread: i32) -> i32 {
    // SAFETY: integers only.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.cast_unsigned()) }
}

extern "C" fn run(body: *mut c_void) -> *mut c_void {
    own::change(STARTING, id());
    let wanted = nice(crate::process::id());
    if nice(0) != wanted {
        // SAFETY: integers only. Where the call is refused the thread keeps its creator's nice
        // value.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
    }
    // SAFETY: from `spawn`.
    if let Some(body) = unsafe { crate::function::at::<Body>(body) } {
        body();
    }
    null_mut()
}
