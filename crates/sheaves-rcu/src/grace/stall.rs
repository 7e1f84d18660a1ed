//! Stall reports: which reader delays a grace period.
//!
//! When a grace period has been under way for a second ([`set_timeout_ms`],
//! `SHEAVES_RCU_STALL_MS`), its leader gives the lead up, because the report may take long. Then it
//! writes one line about one reader that it has waited for, with functions on its stack if it
//! sleeps, and calls the program's function ([`set_callback`]).

use core::fmt::Display;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::function::FnCell;
use sheaves_sys::lock;
use sheaves_sys::thread::{self, NAME_BYTES};
use sheaves_sys::{clock, options, probe, report, sleeper, tls};

use crate::reader::registry;

/// After this time the leader checks whether the reader's thread still exists.
const ALIVE_NS: u64 = 2_000_000;
/// That check may read every record, a line of memory each. The time between two checks, for each
/// record: they take about a hundredth of it. And the longest time between two checks.
const CHECK_NS: u64 = 1000;
const CHECK_NS_MAX: u64 = 1_000_000_000;
/// In place of a record's number: the readers that have no record.
pub(crate) const SHARED: u32 = u32::MAX;

static CALLBACK: FnCell<fn(&Stall)> = FnCell::new();
/// The thread pointer of the thread that makes a report, 0 for none. Written by it: as the leader,
/// and when the report is made.
static CALLING: AtomicUsize = AtomicUsize::new(0);
/// The grace period that is under way was reported. Written by leaders.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);
/// When the leader checks next whether a thread exists, after one did. Written by leaders.
static NEXT_CHECK_NS: AtomicU64 = AtomicU64::new(0);

/// A reader that delays a grace period.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Stall {
    /// The thread's identifier (`gettid`); 0 for readers that found no memory for a record.
    pub thread: i32,
    /// The thread has ended inside the section: no grace period can end any more.
    pub has_ended: bool,
    /// How long the grace period has been under way, in milliseconds: the section is older.
    pub age_ms: u64,
    /// Where the thread entered its outermost section, in builds with debug assertions.
    pub entered: Option<&'static Location<'static>>,
    name: [u8; NAME_BYTES],
    name_bytes: usize,
    /// Of an SRCU domain, whose readers are not known.
    is_srcu: bool,
}

impl Stall {
    const fn new(age_ms: u64, is_srcu: bool) -> Stall {
        let (name, name_bytes) = ([0; NAME_BYTES], 0);
        Stall { thread: 0, has_ended: false, age_ms, entered: None, name, name_bytes, is_srcu }
    }

    /// The thread's name, empty where it cannot be read.
    #[must_use]
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_bytes]).unwrap_or("")
    }
}

/// Sets after how many milliseconds a grace period is reported, at most a day; 0 for never.
pub fn set_timeout_ms(milliseconds: u64) {
    // Otherwise a constructor of the program would be overruled by the environment.
    options::read();
    options::RCU_STALL_MS.set(milliseconds.min(options::RCU_STALL_MS_MAX));
}

/// Sets a function to be called for each report, after the line is written; `None` for none.
///
/// It runs in a thread that waits for readers or polls a cookie: under the program's locks that
/// this thread holds, but none of this library's, and in a signal handler if cookies are polled
/// there. No other call is made while it runs. It may read; waiting for readers is refused as
/// inside a read section. It may panic where unwinding out of its caller is sound.
pub fn set_callback(callback: Option<fn(&Stall)>) {
    CALLBACK.set(callback);
}

/// A grace period begins. For the leader.
pub(super) fn begin() {
    // Relaxed: as in `check_reader`.
    IS_REPORTED.store(false, Ordering::Relaxed);
}

/// Checks record `number`, or [`SHARED`], which is in the way of a grace period. For the leader,
/// which passes the result to [`report`] when it has given the lead up.
#[cold]
#[must_use]
pub(crate) fn check_reader(number: u32, age_ns: u64) -> Option<Stall> {
    let record = (number != SHARED).then(|| registry::record(number));
    if age_ns >= ALIVE_NS && record.is_some() && is_gone(number) {
        return None;
    }
    // The function may take any lock: a thread that holds one leaves the report to a later check.
    // Relaxed: only leaders store a pointer, and pass it on with the lead.
    if !is_late(age_ns) || lock::is_any_held_here() || CALLING.load(Ordering::Relaxed) != 0 {
        return None;
    }
    // Relaxed: only leaders write it, and pass it on with the lead.
    if IS_REPORTED.swap(true, Ordering::Relaxed) {
        return None;
    }
    let mut stall = Stall::new(age_ns / 1_000_000, false);
    if let Some(record) = record {
        let owner = record.owner.load();
        (stall.thread, stall.has_ended) = (owner.thread(), owner.is_held());
        // Relaxed: for a report.
        let entered = record.entered.load(Ordering::Relaxed).cast_const();
        // SAFETY: null, or a location in the program's text, which is constant.
        stall.entered = unsafe { entered.as_ref() };
        // The number may be that of another thread by now.
        if !stall.has_ended {
            stall.name_bytes = thread::name(stall.thread, &mut stall.name);
        }
    }
    // Relaxed: another thread only checks that it is not 0, see above.
    CALLING.store(tls::thread_pointer(), Ordering::Relaxed);
    Some(stall)
}

/// True if a grace period of this age is to be reported.
fn is_late(age_ns: u64) -> bool {
    let timeout = options::RCU_STALL_MS.get();
    timeout != 0 && age_ns / 1_000_000 >= timeout
}

/// True if a record has become free, because its thread is gone. False before it is time for a
/// check.
fn is_gone(number: u32) -> bool {
    // Relaxed: only leaders write it, and pass it on with the lead.
    if clock::fine_ns() < NEXT_CHECK_NS.load(Ordering::Relaxed) {
        return false;
    }
    let is_gone = registry::take_back(number);
    if !is_gone {
        let pause_ns = (u64::from(registry::count()) * CHECK_NS).min(CHECK_NS_MAX);
        // Relaxed: as above.
        NEXT_CHECK_NS.store(clock::fine_ns() + pause_ns, Ordering::Relaxed);
    }
    is_gone
}

/// [`check_reader`] for an SRCU domain. `is_new` notes that it is reported, if it was not before.
#[cold]
#[must_use]
pub(crate) fn check_domain(age_ns: u64, is_new: impl FnOnce() -> bool) -> Option<Stall> {
    (is_late(age_ns) && is_new()).then(|| Stall::new(age_ns / 1_000_000, true))
}

/// Reports what a check has found. Not for leaders, nor under a lock: a write may wait.
pub(crate) fn report(stall: Option<Stall>) {
    let Some(stall) = stall else { return };
    let calling = (!stall.is_srcu).then(|| Calling);
    probe::stall(stall.thread as usize, stall.age_ms as usize);
    write(&stall);
    if let Some(function) = CALLBACK.get().filter(|_| calling.is_some()) {
        function(&stall);
    }
}

fn write(stall: &Stall) {
    let (thread, name, age) = (stall.thread, stall.name(), stall.age_ms);
    if stall.is_srcu {
        report::report(format_args!(
            "rcu: an SRCU read section has delayed a grace period for {age} ms"
        ));
        return;
    }
    if thread == 0 {
        report::report(format_args!("rcu: a thread has been in an RCU read section for {age} ms"));
        return;
    }
    let what = match stall.has_ended {
        true => format_args!(
            "has ended inside an RCU read section: a grace period of {age} ms cannot end"
        ),
        false => format_args!("({name}) has been in an RCU read section for {age} ms"),
    };
    let stack = (!stall.has_ended).then(|| sleeper::of(thread));
    let stack: &dyn Display = stack.as_ref().map_or(&"", |stack| stack);
    let entered = match stall.entered {
        Some(location) => format_args!(", entered at {}", *location),
        None => format_args!(""),
    };
    report::report(format_args!("rcu: thread {thread} {what}{entered}{stack}"));
}

/// This thread makes a report, until this is dropped.
struct Calling;

impl Drop for Calling {
    fn drop(&mut self) {
        // Relaxed: as in `check_reader`.
        CALLING.store(0, Ordering::Relaxed);
    }
}

/// True if the calling thread makes a report: it may be inside the program's function.
pub(crate) fn is_calling_here() -> bool {
    // Relaxed: only the thread itself has stored its pointer there.
    CALLING.load(Ordering::Relaxed) == tls::thread_pointer()
}

/// In the child of a fork, whose thread may make a report.
pub(crate) fn restart_in_child() {
    sheaves_sys::restart_word!(CALLING, if is_calling_here() { tls::thread_pointer() } else { 0 });
    sheaves_sys::restart_word!(IS_REPORTED, false);
}
