//! The side of the process: makes the page, and answers.
//!
//! The page is made when the object is loaded, and never again: later a new file would have the
//! number of one that another thread is opening, for a moment. Children by `fork` share it with
//! their parent. It is never unmapped.
//!
//! The library's thread answers, and is started for that. Where there can be none
//! (`SHEAVES_RCU_RECLAIMERS=0`) any thread does at the end of a slow path. One thread at a time
//! answers, under [`CONTROL`], which is above the locks of all other layers. The rest of the file,
//! which has the answer, is mapped meanwhile, from the mapping of the page. The descriptor is for
//! tools only: the program may close it, and open another file at its number, at any time.

use core::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_heap::report::{self, Flush, Format};
use sheaves_heap::{checking, classes, guard, profile};
use sheaves_rcu::Cookie;
use sheaves_rcu::internal::is_reclaimer;
use sheaves_sys::errno::{EINVAL, ENOMEM, ENOSPC, EOPNOTSUPP};
use sheaves_sys::lock::{Held, Lock};
use sheaves_sys::report::Line;
use sheaves_sys::request::is_for_this_process;
use sheaves_sys::{
    announce_when_loaded, errno, fork, futex, map, memfd, options, process, request,
};

use crate::layout::{
    ANSWER_AT, ANSWER_BYTES_MAX, ANSWERED, ANSWERING, BEGIN_GRACE_PERIOD, FILE_BYTES, GUARD_OFF,
    GUARD_ON, IDLE, MAGIC, NAME, PROFILE_DUMP, PROFILE_START, PROFILE_STOP, Page, RCU, REQUESTED,
    STATISTICS, STATISTICS_TEXT, VERSION,
};

/// The page, once it is made: mapped by [`make`], and never unmapped.
#[unsafe(link_section = ".sheaves_load")]
static CONTROL: Lock<Option<&'static Page>> = Lock::new(None);

/// Makes the page, unless `SHEAVES_CONTROL=0`. Calling it again changes nothing.
pub(crate) fn start() {
    #[unsafe(link_section = ".sheaves_load")]
    static HAS_STARTED: AtomicBool = AtomicBool::new(false);
    options::read();
    // Relaxed: nothing is published through it.
    if HAS_STARTED.swap(true, Ordering::Relaxed)
        || process::is_secure()
        || !options::CONTROL.is_on()
    {
        return;
    }
    request::set_answer(answer);
    request::note_process(true);
    *CONTROL.lock() = make();
}

/// Answers what is requested. Not under a lock.
fn answer() {
    errno::preserve(|| {
        // Otherwise another thread answers, or this one is between the handlers of a fork.
        let Some(control) = CONTROL.try_lock() else { return };
        if !CONTROL.is_held_for_fork()
            && let Some(page) = *control
        {
            answer_request(control, page);
        }
    });
}

fn answer_request(control: Held<'_, Option<&'static Page>>, page: &'static Page) {
    // Acquire pairs with the Release by which the tool requests: the command. Relaxed on failure:
    // nothing is read. [Q1]
    let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
    if page.request.state.compare_exchange(REQUESTED, ANSWERING, taken, failed).is_err() {
        return;
    }
    // The tool that asked this process may have ended meanwhile, and another have asked the parent.
    if !is_for_this_process(&page.request) {
        // Relaxed: exchanges leave what the tool has released in force. It fails if a tool has
        // given the request up.
        let _ = page.request.state.compare_exchange(ANSWERING, REQUESTED, failed, failed);
        futex::wake_all_shared(&page.request.state);
        return;
    }
    // Relaxed, here and below: the exchange before and the store after these order them.
    let command = page.command.load(Ordering::Relaxed);
    let argument = page.argument.load(Ordering::Relaxed);
    // SAFETY: mapped by `make`.
    let file = unsafe { map::shared_again((&raw const *page).expose_provenance(), FILE_BYTES) };
    let failure = if file.is_none() { ENOMEM } else { ENOSPC };
    let (begin, mut used) = (file.map(|file| file + ANSWER_AT), 0);
    let mut flush = |line: &mut Line| {
        let text = line.as_bytes();
        let is_room = used + text.len() <= ANSWER_BYTES_MAX;
        let place = begin.filter(|_| is_room && is_for_this_process(&page.request));
        if let Some(begin) = place {
            let place = with_exposed_provenance_mut::<u8>(begin + used);
            // SAFETY: inside the mapping, which only the thread that has the lock writes to.
            unsafe { copy_nonoverlapping(text.as_ptr(), place, text.len()) };
            used += text.len();
        }
        line.clear();
        if place.is_some() { 0 } else { failure }
    };
    let status = answer_to(command, argument, &mut flush);
    if is_for_this_process(&page.request) {
        page.status.store(status.cast_unsigned(), Ordering::Relaxed);
        page.answer_bytes.store(used as u64, Ordering::Relaxed);
        // Release pairs with the Acquire by which the tool reads the answer. Relaxed on failure: a
        // tool has given the answer up, so nothing waits for it. [Q3]
        let (done, failed) = (Ordering::Release, Ordering::Relaxed);
        let _ = page.request.state.compare_exchange(ANSWERING, ANSWERED, done, failed);
        futex::wake_all_shared(&page.request.state);
    }
    if let Some(file) = file {
        // SAFETY: mapped above, and not used any more.
        unsafe { map::unmap(file, FILE_BYTES) };
    }
    drop(control);
    after(command, argument);
}

/// Writes the answer to a command. Returns its status.
fn answer_to(command: u32, argument: u64, flush: &mut Flush<'_>) -> i32 {
    match command {
        STATISTICS => report::write(Format::Json, flush),
        STATISTICS_TEXT => report::write(Format::Text, flush),
        RCU => report::rcu::write(flush),
        PROFILE_START => start_profile(argument),
        PROFILE_STOP => {
            profile::stop();
            0
        }
        PROFILE_DUMP => profile::write(flush),
        GUARD_ON => start_guard(argument),
        GUARD_OFF => {
            guard::off();
            0
        }
        _ => EINVAL,
    }
}

fn start_profile(rate: u64) -> i32 {
    let rates = profile::RATE_BYTES_MIN as u64..=profile::RATE_BYTES_MAX as u64;
    match rate {
        _ if !rates.contains(&rate) => EINVAL,
        _ if profile::start_for_tool(rate as usize) => 0,
        _ => ENOMEM,
    }
}

fn start_guard(one_in: u64) -> i32 {
    match one_in {
        0 => EINVAL,
        _ if one_in > guard::ONE_IN_MAX as u64 => EINVAL,
        _ if checking::is_hardened() => EOPNOTSUPP,
        _ if guard::on_for_tool(one_in as usize) => 0,
        _ => ENOMEM,
    }
}

fn after(command: u32, argument: u64) {
    if command == RCU && argument & BEGIN_GRACE_PERIOD != 0 {
        let _cookie = Cookie::start_poll();
    }
    // Any other thread may be in a slow path, and libc allocates for a new thread.
    if (command == PROFILE_START || command == GUARD_ON) && is_reclaimer() {
        profile::find_unwinder_apart();
    }
}

/// Makes the page. Where this fails no tool gets an answer.
fn make() -> Option<&'static Page> {
    let file = memfd::make(NAME, FILE_BYTES)?;
    // SAFETY: nothing is replaced.
    let Some(address) = (unsafe { map::shared(0, ANSWER_AT, file) }) else {
        process::close(file);
        return None;
    };
    // SAFETY: mapped just now, and never unmapped; all of it is atomic.
    let page = unsafe { &*with_exposed_provenance::<Page>(address) };
    // Relaxed, all: no tool reads them before the magic.
    page.version.store(VERSION, Ordering::Relaxed);
    page.request.state.store(IDLE, Ordering::Relaxed);
    page.object.store(answer as *const () as u64, Ordering::Relaxed);
    page.closing_words.store(classes::closing_words() as u64, Ordering::Relaxed);
    // Release pairs with the Acquire in `Client::attach`: the page is complete. [Q4]
    page.magic.store(MAGIC, Ordering::Release);
    request::watch(Some(&page.request));
    Some(page)
}

static HANDLERS: fork::Handlers = fork::Handlers { prepare, parent: release, child };
announce_when_loaded!(Control, &HANDLERS);
sheaves_sys::fork_locks!(CONTROL);

/// The child has the page of its parent. If this very thread was answering before the fork, the
/// request is the parent's.
fn child() {
    request::note_process(!fork::is_late());
    release();
}

#[cfg(test)]
#[path = "../tests/unit/page.rs"]
mod tests;
