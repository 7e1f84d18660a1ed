//! Children with a deadline: a child's current stage is in memory that it shares with its parent.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::env;
use std::process::Command;
use std::time::Instant;

use crate::{memory, work};

/// Default time limit of a child. It takes a tenth of a second on an idle machine.
const LIMIT_SECONDS: u64 = 5;
/// Sets another time limit.
pub(crate) const SECONDS: &str = "SHEAVES_TEST_FORK_SECONDS";
/// An alarm kills a parent that does not reach its next fork within this time.
const ALARM_SECONDS: u32 = 60;
const NAP: Duration = Duration::from_micros(300);

/// The current stage of a process: the address of a `&'static CStr`, which is valid in all
/// processes.
type Stage = AtomicPtr<core::ffi::c_char>;

/// The stage of each generation of children.
static STAGES: AtomicPtr<[Stage; 3]> = AtomicPtr::new(null_mut());
/// The generation of this process.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// Where children whose fork ran no handlers write what they report.
static ERRORS: AtomicI32 = AtomicI32::new(-1);
/// Number of such children that have ended by the line below.
pub(crate) static REFUSED: AtomicU32 = AtomicU32::new(0);
/// Another thread held a lock when the child was made.
const REFUSAL: &str = "cannot use the heap: another thread was changing it";
/// The longest time of a fork, in microseconds.
pub(crate) static SLOWEST_FORK_US: AtomicU64 = AtomicU64::new(0);
/// The longest time of a child, in microseconds.
pub(crate) static SLOWEST_CHILD_US: AtomicU64 = AtomicU64::new(0);

/// The time limit of a child.
pub(crate) fn limit() -> Duration {
    let asked = env::var(SECONDS).map(|text| text.parse().unwrap());
    Duration::from_secs(asked.unwrap_or(LIMIT_SECONDS))
}

/// Resets signals to their defaults, which this process may not have inherited.
pub(crate) fn reset_signals() {
    for signal in [libc::SIGCHLD, libc::SIGALRM, libc::SIGPROF] {
        // SAFETY: the default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an all-zero set is valid to be filled.
    let mut none: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: valid for writes.
    unsafe { libc::sigemptyset(&raw mut none) };
    // SAFETY: a valid set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, null_mut()) };
}

/// Maps the shared memory.
pub(crate) fn start() {
    let bytes = size_of::<[Stage; 3]>();
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping.
    let place = unsafe { libc::mmap(null_mut(), bytes, access, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    // Relaxed, both: before there are threads.
    STAGES.store(place.cast(), Ordering::Relaxed);
    // SAFETY: a name.
    let errors = unsafe { libc::memfd_create(c"errors".as_ptr(), 0) };
    assert!(errors >= 0);
    ERRORS.store(errors, Ordering::Relaxed);
}

fn stage_of(generation: usize) -> Option<&'static Stage> {
    // Relaxed, here and below: what is read is for reports.
    let stages = STAGES.load(Ordering::Relaxed);
    // SAFETY: null, or zeroed memory for all generations, never unmapped.
    unsafe { stages.as_ref() }.map(|stages| &stages[generation])
}

/// Sets the stage of this process.
pub(crate) fn enter(name: &'static CStr) {
    if let Some(stage) = stage_of(generation()) {
        stage.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
    }
}

/// The stage of the process of a generation.
fn name_of(generation: usize) -> &'static str {
    let name = stage_of(generation).map_or(null_mut(), |stage| stage.load(Ordering::Relaxed));
    if name.is_null() {
        return "";
    }
    // SAFETY: from a `&'static CStr` of this program.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("")
}

/// The stage of this process.
pub(crate) fn here() -> &'static str {
    name_of(generation())
}

/// The generation of this process: 0 for the first one.
pub(crate) fn generation() -> usize {
    GENERATION.load(Ordering::Relaxed)
}

/// Called in a child, which begins the next generation.
pub(crate) fn begin_child() {
    GENERATION.store(generation() + 1, Ordering::Relaxed);
    enter(c"begin");
    // Ends a child whose parent is gone.
    // SAFETY: no precondition.
    unsafe { libc::alarm(ALARM_SECONDS) };
}

/// Called in a child whose fork ran no handlers: it may end by [`REFUSAL`].
pub(crate) fn may_be_refused() {
    let errors = ERRORS.load(Ordering::Relaxed);
    // SAFETY: a file of this test.
    let descriptor = unsafe { libc::dup2(errors, 2) };
    work::check(descriptor == 2);
}

/// What such a child has reported.
fn take_errors() -> String {
    let mut text = [0; 1024];
    let errors = ERRORS.load(Ordering::Relaxed);
    // SAFETY: the buffer has as many bytes.
    let used = unsafe { libc::pread(errors, text.as_mut_ptr().cast(), text.len(), 0) };
    // SAFETY: a file of this test.
    unsafe { libc::ftruncate(errors, 0) };
    // SAFETY: as above.
    unsafe { libc::lseek(errors, 0, libc::SEEK_SET) };
    String::from_utf8_lossy(&text[..usize::try_from(used).unwrap_or(0)]).into_owned()
}

/// Kills the process unless its next step ends in time.
pub(crate) fn set_alarm() {
    // SAFETY: no precondition.
    unsafe { libc::alarm(ALARM_SECONDS) };
}

/// Waits for a child, and kills it after `limit`. An error says what went wrong.
pub(crate) fn wait_for(child: i32, limit: Duration) -> Result<(), String> {
    let begin = Instant::now();
    let of_child = generation() + 1;
    let mut status = 0;
    loop {
        // SAFETY: a child of this process, and a place for its status.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            break;
        }
        if ended < 0 {
            return Err(format!("waitpid: {}", std::io::Error::last_os_error()));
        }
        if begin.elapsed() > limit {
            let name = name_of(of_child);
            show(child);
            // SAFETY: a child of this process that was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above; it was killed.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return Err(format!("did not end within {limit:?}, in: {name}"));
        }
        std::thread::sleep(NAP);
    }
    let took = begin.elapsed().as_micros() as u64;
    SLOWEST_CHILD_US.fetch_max(took, Ordering::Relaxed);
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        return Ok(());
    }
    let errors = memory::unlimited(take_errors);
    let is_aborted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
    if is_aborted && errors.contains(REFUSAL) {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    Err(format!("status {status:#x}, in: {}; {errors}", name_of(of_child)))
}

/// Prints the stacks of a process, if that is requested.
pub(crate) fn show(process: i32) {
    if env::var_os("SHEAVES_TEST_FORK_DEBUGGER").is_some() {
        let process = process.to_string();
        let arguments = ["-p", &process, "-batch", "-ex", "thread apply all bt 25"];
        let _ = memory::unlimited(|| Command::new("gdb").args(arguments).status());
    }
}
