//! The side of the process: makes the page, and answers.
//!
//! The page is made by a slow path when the process is [`AGE_MS`] old, counted from its fork if it
//! is a child, so that short processes have none; or by the reclaimer when it starts. It is made
//! again when the program has closed its descriptor, at a look of the keeper. It is never unmapped:
//! a new one takes its place, so a thread that still reads an old one reads the new one.
//!
//! One thread at a time answers, under [`CONTROL`], which is above the locks of all other layers.
//! It writes through the mapping. The descriptor is for tools only: the program may close it, and
//! open another file at its number, at any time.

use core::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_rcu::defer::{self, Sink};
use sheaves_slab::chunk;
use sheaves_sys::errno::ENOSPC;
use sheaves_sys::lock::{Held, Lock};
use sheaves_sys::memfd::Memfd;
use sheaves_sys::report::Line;
use sheaves_sys::request::{self, Watch};
use sheaves_sys::{announce_when_loaded, errno, fork, futex, map, options, process};

use crate::commands;
use crate::layout::{
    ANSWER_AT, ANSWER_BYTES_MAX, ANSWERED, ANSWERING, FILE_BYTES, IDLE, MAGIC, NAME, Page,
    REQUESTED, VERSION,
};

/// A younger process makes no page.
const AGE_MS: u64 = 50;

struct Control {
    /// The file of the page, until the program closes it.
    file: Option<Memfd>,
    /// Where it is mapped, 0 before there is one.
    address: usize,
    /// This process, 0 if it does not answer. A child that shares our memory (`vfork`) is another.
    process: i32,
    /// Number of seccomp filters at the start. A program that has put itself into a sandbox since
    /// then makes no page: a system call that the sandbox does not expect may end it.
    filters: Option<u32>,
    /// The page could not be made, for want of descriptors for example.
    has_failed: bool,
}

static CONTROL: Lock<Control> =
    Lock::new(Control { file: None, address: 0, process: 0, filters: None, has_failed: false });

/// Has the process answer tools, unless `SHEAVES_CONTROL=0`. Calling it again changes nothing.
pub(crate) fn start() {
    static HAS_STARTED: AtomicBool = AtomicBool::new(false);
    options::read();
    // Relaxed: nothing is published through it.
    if HAS_STARTED.swap(true, Ordering::Relaxed)
        || process::is_secure()
        || !options::CONTROL.is_on()
    {
        return;
    }
    let mut control = CONTROL.lock();
    (control.process, control.filters) = (process::id(), process::seccomp_filters(false));
    drop(control);
    defer::register(&Looks);
    request::set_answer(answer);
    request::watch(Watch::Unmade);
}

/// Answers what is requested, or makes the page if there is none and it is time. Not under a lock.
fn answer(is_keeper: bool) {
    errno::preserve(|| {
        let control = if is_keeper { Some(CONTROL.lock()) } else { CONTROL.try_lock() };
        // Otherwise another thread answers.
        let Some(control) = control else { return };
        match control.page() {
            None if !is_keeper && fork::age_ms() < AGE_MS => {}
            _ if !control.is_ours() => {}
            None => make(control),
            Some(page) => answer_request(control, page),
        }
    });
}

fn answer_request(control: Held<'_, Control>, page: &'static Page) {
    // Acquire pairs with the Release by which the tool requests: the command. Relaxed on failure:
    // nothing is read. [Q1]
    let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
    if page.state.compare_exchange(REQUESTED, ANSWERING, taken, failed).is_err() {
        return;
    }
    // Relaxed, here and below: the exchange before and the store after these order them.
    let command = page.command.load(Ordering::Relaxed);
    let argument = page.argument.load(Ordering::Relaxed);
    let (begin, mut used) = (control.address + ANSWER_AT, 0);
    let mut flush = |line: &mut Line| {
        let text = line.as_bytes();
        let fits = used + text.len() <= ANSWER_BYTES_MAX;
        if fits {
            let place = with_exposed_provenance_mut::<u8>(begin + used);
            // SAFETY: inside the mapping, which only the thread that has the lock writes to.
            unsafe { copy_nonoverlapping(text.as_ptr(), place, text.len()) };
            used += text.len();
        }
        line.clear();
        if fits { 0 } else { ENOSPC }
    };
    let status = commands::answer(command, argument, &mut flush);
    page.status.store(status.cast_unsigned(), Ordering::Relaxed);
    page.answer_bytes.store(used as u64, Ordering::Relaxed);
    // Release pairs with the Acquire by which the tool reads the answer. [Q3]
    page.state.store(ANSWERED, Ordering::Release);
    futex::wake_all_shared(&page.state);
    drop(control);
    commands::after(command, argument);
}

/// Makes the page, and has the reclaimer sleep on it. If there is none, the next slow path that
/// allocates starts it, in a process with several threads: these may all be idle when a tool asks.
fn make(mut control: Held<'_, Control>) {
    if control.make() {
        drop(control);
        defer::wake_reclaimer();
        chunk::note_unused();
    }
}

impl Control {
    /// The page, if it is that of this process.
    fn page(&self) -> Option<&'static Page> {
        let page = with_exposed_provenance::<Page>(self.address);
        // SAFETY: null, or mapped by `make_page` and never unmapped; all of it is atomic.
        let page = unsafe { page.as_ref()? };
        // A child in a PID namespace of its own may have its parent's number, but not its file.
        // Relaxed: written under the lock.
        let is_ours = page.pid.load(Ordering::Relaxed) == self.process.cast_unsigned();
        (self.file.is_some() && is_ours).then_some(page)
    }

    /// True if this process answers, and this thread is not between the handlers of a fork.
    fn is_ours(&self) -> bool {
        !CONTROL.is_held_for_fork() && self.process == process::id()
    }

    /// Makes the page, in place of that of the parent, or of one whose descriptor is closed. If
    /// this fails the process does not answer until the next look of the keeper.
    fn make(&mut self) -> bool {
        let is_sandboxed = self.filters.is_none() || self.filters != process::seccomp_filters(true);
        self.has_failed = is_sandboxed || !self.make_page();
        if self.has_failed {
            request::watch(Watch::Nothing);
        }
        !self.has_failed
    }

    fn make_page(&mut self) -> bool {
        let Some(file) = Memfd::make(NAME, FILE_BYTES) else { return false };
        // SAFETY: what is mapped there is ours, and read as atomic words only. A thread that reads
        // zeros there meanwhile does nothing.
        let mapped = unsafe { map::shared(self.address, FILE_BYTES, file.descriptor()) };
        let Some(address) = mapped else {
            file.close();
            return false;
        };
        (self.address, self.file) = (address, Some(file));
        // SAFETY: mapped just now, and never unmapped; all of it is atomic.
        let page = unsafe { &*with_exposed_provenance::<Page>(address) };
        // Relaxed, here and below: no tool reads them before the magic.
        page.version.store(VERSION, Ordering::Relaxed);
        page.pid.store(self.process.cast_unsigned(), Ordering::Relaxed);
        page.state.store(IDLE, Ordering::Relaxed);
        // Release pairs with the Acquire in `Client::attach`: the page is complete. [Q4]
        page.magic.store(MAGIC, Ordering::Release);
        request::watch(Watch::Page(&page.state));
        true
    }
}

/// The looks of the keeper, and of other threads while there is none.
struct Looks;

impl Sink for Looks {
    fn age(&self) -> bool {
        if let Some(control) = CONTROL.try_lock()
            && control.is_ours()
            && (control.has_failed || control.file.as_ref().is_some_and(|file| !file.is_there()))
        {
            make(control);
        }
        false
    }

    fn name(&self) -> &'static str {
        "control"
    }
}

static HANDLERS: fork::Handlers =
    fork::Handlers { prepare: || CONTROL.acquire(), parent: release, child, recover };
announce_when_loaded!(Control, &HANDLERS);

fn release() {
    // SAFETY: taken in `prepare` or `recover` by the thread that forked.
    unsafe { CONTROL.release() };
}

fn recover() {
    // What another thread was making is lost.
    drop(CONTROL.acquire_to_recover(|_| {}));
}

/// The child does not answer for its parent, and makes a page of its own when it is time.
fn child() {
    release();
    // If this very thread was answering before the fork, the child never answers.
    if let Some(mut control) = CONTROL.try_lock()
        && control.process != 0
    {
        if let Some(file) = control.file.take() {
            file.close();
        }
        (control.process, control.has_failed) = (process::id(), false);
        request::watch(Watch::Unmade);
    }
}
