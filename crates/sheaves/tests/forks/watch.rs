//! Children with a deadline: what each does stands in memory that it shares with its parent.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::env;
use std::process::Command;
use std::time::Instant;

use crate::memory;

/// A child ends by itself within this time, unless another is asked for. It takes a tenth of a
/// second on a machine that does nothing else.
const LIMIT_SECONDS: u64 = 5;
/// Asks for another.
pub(crate) const SECONDS: &str = "SHEAVES_TEST_FORK_SECONDS";
/// A parent that does not come to its next fork within this time is killed by the alarm.
const ALARM_SECONDS: u32 = 60;
const NAP: Duration = Duration::from_micros(300);

/// What a process does: the address of a `&'static CStr`, which all of the family have.
type Stage = AtomicPtr<core::ffi::c_char>;

/// One for each generation of children.
static STAGES: AtomicPtr<[Stage; 3]> = AtomicPtr::new(null_mut());
/// Which generation this process is.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// The longest that a fork has taken, in microseconds.
pub(crate) static SLOWEST_FORK_US: AtomicU64 = AtomicU64::new(0);
/// The longest that a child has taken.
pub(crate) static SLOWEST_CHILD_US: AtomicU64 = AtomicU64::new(0);

/// The time that a child has.
pub(crate) fn limit() -> Duration {
    let asked = env::var(SECONDS).map(|text| text.parse().unwrap());
    Duration::from_secs(asked.unwrap_or(LIMIT_SECONDS))
}

/// Signals as they are by default, whatever this process inherited.
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

/// Makes the memory that is shared.
pub(crate) fn start() {
    let bytes = size_of::<[Stage; 3]>();
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping.
    let place = unsafe { libc::mmap(null_mut(), bytes, access, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    // Relaxed: before there are threads.
    STAGES.store(place.cast(), Ordering::Relaxed);
}

fn stage_of(generation: usize) -> Option<&'static Stage> {
    // Relaxed, here and below: what is read is a report.
    let stages = STAGES.load(Ordering::Relaxed);
    // SAFETY: null, or zeroed memory for all generations, for good.
    unsafe { stages.as_ref() }.map(|stages| &stages[generation])
}

/// Says what this process does from now on.
pub(crate) fn enter(name: &'static CStr) {
    if let Some(stage) = stage_of(generation()) {
        stage.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
    }
}

/// What a process of a generation does.
fn name_of(generation: usize) -> &'static str {
    let name = stage_of(generation).map_or(null_mut(), |stage| stage.load(Ordering::Relaxed));
    if name.is_null() {
        return "";
    }
    // SAFETY: from a `&'static CStr` of this program.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("")
}

/// What this process does.
pub(crate) fn here() -> &'static str {
    name_of(generation())
}

/// Which generation this process is: 0 for the first.
pub(crate) fn generation() -> usize {
    GENERATION.load(Ordering::Relaxed)
}

/// In a child: it is of the next generation.
pub(crate) fn begin_child() {
    GENERATION.store(generation() + 1, Ordering::Relaxed);
    enter(c"begin");
    // Ends a child whose parent is gone.
    // SAFETY: no precondition.
    unsafe { libc::alarm(ALARM_SECONDS) };
}

/// Has the next step end within some time, or the process be killed.
pub(crate) fn set_alarm() {
    // SAFETY: no precondition.
    unsafe { libc::alarm(ALARM_SECONDS) };
}

/// Waits for a child; one that does not end in time is killed. What went wrong, if anything.
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
    match libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        true => Ok(()),
        false => Err(format!("status {status:#x}, in: {}", name_of(of_child))),
    }
}

/// Shows where a process is, if that is asked for.
pub(crate) fn show(process: i32) {
    if env::var_os("SHEAVES_TEST_FORK_DEBUGGER").is_some() {
        let process = process.to_string();
        let arguments = ["-p", &process, "-batch", "-ex", "thread apply all bt 25"];
        let _ = memory::unlimited(|| Command::new("gdb").args(arguments).status());
    }
}
