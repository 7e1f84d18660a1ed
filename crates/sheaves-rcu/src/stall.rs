//! Readers that hold grace periods up: they are named.
//!
//! Once a grace period has been under way for a second (see [`set_timeout_ms`] and
//! `SHEAVES_RCU_STALL_MS`) its leader writes one line about the reader that it waits for, and calls
//! the program's function if it has set one. One report for each grace period: the first reader in
//! the way is enough to know where to look.

use core::panic::Location;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::thread::{self, NAME_BYTES};
use sheaves_sys::{clock, env, report};

use crate::registry;

/// Milliseconds until a report, unless the program or the environment says otherwise.
const TIMEOUT_MS: u64 = 1_000;
/// The highest value of `SHEAVES_RCU_STALL_MS`.
const TIMEOUT_MS_MAX: usize = 86_400_000;
/// A reader is asked for its life after this time.
const ALIVE_NS: u64 = 2_000_000;

/// Stands for the readers without a record, where a record's number is expected.
pub(crate) const SHARED: u32 = u32::MAX;

/// Milliseconds until a report, 0 for none; [`UNSET`] until the environment was asked.
static TIMEOUT: AtomicU64 = AtomicU64::new(UNSET);
const UNSET: u64 = u64::MAX;
/// Address of the program's function, 0 for none.
static CALLBACK: AtomicUsize = AtomicUsize::new(0);
/// The number of the thread in which the program's function runs, 0 for none. Written by leaders.
static CALLING: AtomicI32 = AtomicI32::new(0);
/// The process's word during the last grace period that was reported.
static REPORTED: AtomicU64 = AtomicU64::new(0);

/// A reader that holds a grace period up.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Stall {
    /// The kernel's number of the thread; 0 if it is one of those for which there was no memory.
    pub thread: i32,
    /// The thread has ended inside the section: no grace period will end any more.
    pub has_ended: bool,
    /// How long the grace period has been under way, in milliseconds: the section is older.
    pub age_ms: u64,
    /// Where the thread entered its outermost section, in builds with debug assertions.
    pub entered: Option<&'static Location<'static>>,
    name: [u8; NAME_BYTES],
    name_bytes: usize,
}

impl Stall {
    /// The thread's name, empty where it cannot be read.
    #[must_use]
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_bytes]).unwrap_or("")
    }
}

/// Sets after how many milliseconds a grace period is reported as stalled; 0 for never.
pub fn set_timeout_ms(milliseconds: u64) {
    // Relaxed: a number.
    TIMEOUT.store(milliseconds.min(TIMEOUT_MS_MAX as u64), Ordering::Relaxed);
}

/// Sets a function to be called for each report, after the line is written; `None` for none.
///
/// It runs in the thread that leads the grace period, which waits for it: in one that waits for
/// readers, or polls a cookie; so in a signal handler, if cookies are polled there, and under
/// whatever locks the thread holds that polls. In it, waiting for readers is refused as inside a
/// read section, and cookies that are not over stay so. It may read, and it may panic where
/// unwinding out of its caller is sound.
pub fn set_callback(callback: Option<fn(&Stall)>) {
    let address = callback.map_or(0, |function| function as *const () as usize);
    // Release pairs with the Acquire in `call`: what the function needs was set up before.
    CALLBACK.store(address, Ordering::Release);
}

pub(crate) fn timeout_ms() -> u64 {
    // Relaxed, here and below: a number.
    let known = TIMEOUT.load(Ordering::Relaxed);
    if known != UNSET {
        return known;
    }
    let asked = env::number("SHEAVES_RCU_STALL_MS", 0, TIMEOUT_MS_MAX);
    let found = asked.map_or(TIMEOUT_MS, |milliseconds| milliseconds as u64);
    let _ = TIMEOUT.compare_exchange(UNSET, found, Ordering::Relaxed, Ordering::Relaxed);
    TIMEOUT.load(Ordering::Relaxed)
}

/// Looks at a record that is in the way of a grace period which began at `began_ns`.
///
/// For the leader. `number` is that of the record, or [`SHARED`].
#[cold]
pub(crate) fn look(number: u32, began_ns: u64, global: u64) {
    let age_ns = clock::fine_ns().saturating_sub(began_ns);
    let record = (number != SHARED).then(|| registry::record(number));
    if age_ns >= ALIVE_NS && record.is_some_and(registry::take_back) {
        return;
    }
    let timeout = timeout_ms();
    // Relaxed, both: leaders alone write it, and it passes between them with the lead.
    let is_due = timeout != 0 && age_ns / 1_000_000 >= timeout;
    if !is_due || REPORTED.load(Ordering::Relaxed) == global {
        return;
    }
    REPORTED.store(global, Ordering::Relaxed);
    let mut stall = Stall {
        thread: 0,
        has_ended: false,
        age_ms: age_ns / 1_000_000,
        entered: None,
        name: [0; NAME_BYTES],
        name_bytes: 0,
    };
    if let Some(record) = record {
        let owner = record.owner.look();
        stall.thread = owner.thread();
        stall.has_ended = owner.is_held();
        // Relaxed: for a report.
        let entered = record.entered.load(Ordering::Relaxed).cast_const();
        // SAFETY: null, or a place in the program's text, which is constant.
        stall.entered = unsafe { entered.as_ref() };
        // The number may be that of another thread by now.
        if !stall.has_ended {
            stall.name_bytes = thread::name(stall.thread, &mut stall.name);
        }
    }
    write(&stall);
    call(&stall);
}

/// Looks at a grace period of a domain of its own, which nobody knows the readers of.
#[cold]
pub(crate) fn look_at_domain(age_ns: u64, is_reported: &mut bool) {
    let (timeout, age_ms) = (timeout_ms(), age_ns / 1_000_000);
    if !*is_reported && timeout != 0 && age_ms >= timeout {
        *is_reported = true;
        report::report(format_args!("rcu: a section of a domain lasts for more than {age_ms} ms"));
    }
}

fn write(stall: &Stall) {
    let (thread, name, age) = (stall.thread, stall.name(), stall.age_ms);
    let what = match stall.has_ended {
        true => format_args!("has ended inside a read section, waited for since {age} ms"),
        false => format_args!("({name}) reads since more than {age} ms"),
    };
    match stall.entered {
        Some(place) => {
            report::report(format_args!("rcu: thread {thread} {what}, entered at {place}"));
        }
        None => report::report(format_args!("rcu: thread {thread} {what}")),
    }
}

fn call(stall: &Stall) {
    // Acquire pairs with the Release in `set_callback`.
    let address = CALLBACK.load(Ordering::Acquire);
    if address == 0 {
        return;
    }
    let pointer = core::ptr::with_exposed_provenance::<()>(address);
    // SAFETY: the address is that of a function of this type, from `set_callback`.
    let function = unsafe { core::mem::transmute::<*const (), fn(&Stall)>(pointer) };
    let _calling = Calling::here();
    function(stall);
}

/// The program's function runs in this thread, until this is dropped.
struct Calling;

impl Calling {
    fn here() -> Calling {
        // Relaxed: only the thread itself finds its number there.
        CALLING.store(thread::id(), Ordering::Relaxed);
        Calling
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        // Relaxed: as in `here`.
        CALLING.store(0, Ordering::Relaxed);
    }
}

/// Does the calling thread run the program's function, as a leader?
pub(crate) fn is_calling_here() -> bool {
    // Relaxed: only the thread itself has stored its number there.
    let thread = CALLING.load(Ordering::Relaxed);
    thread != 0 && thread == thread::id()
}

/// In the child of a fork: the thread that called may be another one's, or have another number.
pub(crate) fn restart_in_child() {
    // Relaxed: the child has one thread.
    CALLING.store(0, Ordering::Relaxed);
}
