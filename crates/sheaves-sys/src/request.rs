//! Requests to this process: a word that threads read where they hold no lock.
//!
//! Users: the slow paths of `sheaves-slab` and the reclaimer of `sheaves-rcu` read the word, and
//! `sheaves-control` says which word it is and what is done about it. A request costs nothing while
//! there is none: fast paths do not look, and slow paths read one word.
//!
//! A child of a fork shares the word with its parent: a request names the process that it is for.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::function::FnCell;
use crate::{fork, futex, process, sandbox};

/// The value of [`ToolRequest::state`] when something is to be done.
pub const REQUESTED: u32 = 1;

/// A request, in memory that tools write to.
#[repr(C)]
#[derive(Debug)]
pub struct ToolRequest {
    /// [`REQUESTED`], or another state: see `sheaves_control::layout`. A futex.
    pub state: AtomicU32,
    /// The process that it is for, by its own number in its own namespace.
    pub process: AtomicU32,
}

static NOTHING: ToolRequest = ToolRequest { state: AtomicU32::new(0), process: AtomicU32::new(0) };
#[unsafe(link_section = ".sheaves_load")]
static REQUEST: AtomicPtr<ToolRequest> = AtomicPtr::new((&raw const NOTHING).cast_mut());
/// The number of this process; 0 where it is not known, as in a child of `_Fork`.
#[unsafe(link_section = ".sheaves_load")]
static PROCESS: AtomicU32 = AtomicU32::new(0);
#[unsafe(link_section = ".sheaves_load")]
static ANSWER: FnCell<fn()> = FnCell::new();

/// Sets the function that does what is requested. When the object is loaded.
pub fn set_answer(answer: fn()) {
    ANSWER.set(Some(answer));
}

/// Sets where threads look; `None` for nowhere.
pub fn watch(request: Option<&'static ToolRequest>) {
    let request = request.unwrap_or(&NOTHING);
    // Release pairs with the Acquire in `request`: the page is mapped. [Q2]
    REQUEST.store(core::ptr::from_ref(request).cast_mut(), Ordering::Release);
}

#[inline]
fn request() -> &'static ToolRequest {
    // Acquire pairs with the Release in `watch`. [Q2]
    let request = REQUEST.load(Ordering::Acquire);
    // SAFETY: a static, or in the page, which is never unmapped.
    unsafe { &*request }
}

/// Learns the number of this process, or forgets it in a child: then it answers no request. One
/// system call, so in a sandbox it is forgotten.
pub fn note_process(is_known: bool) {
    let is_known = is_known && !sandbox::is_entered();
    let id = if is_known { process::id().cast_unsigned() } else { 0 };
    // Relaxed: a number.
    PROCESS.store(id, Ordering::Relaxed);
}

/// The number of this process for a report; 0 in a sandbox, if it is not known there.
pub fn process_id() -> u32 {
    if sandbox::is_entered() {
        // Relaxed: a number.
        return PROCESS.load(Ordering::Relaxed);
    }
    process::id().cast_unsigned()
}

/// True in a child that shares the memory of its parent (`vfork`). One system call.
pub fn is_other_process() -> bool {
    // Relaxed: a number.
    let process = PROCESS.load(Ordering::Relaxed);
    process != 0 && !fork::is_pending() && process != process::id().cast_unsigned()
}

/// True if something is requested of this process. Two loads if nothing is.
#[inline]
pub fn is_there() -> bool {
    let request = request();
    // Relaxed: a hint; the one that answers takes the request by an exchange.
    request.state.load(Ordering::Relaxed) == REQUESTED && is_for_this_process(request)
}

/// True if a request names this process, whatever its state is.
#[inline]
pub fn is_for_this_process(request: &ToolRequest) -> bool {
    // Relaxed, both: numbers. Exchanges of the state order what is done about them.
    request.process.load(Ordering::Relaxed) == PROCESS.load(Ordering::Relaxed)
}

/// Does what is requested, if something is; true if it was. Not under a lock.
pub fn answer() -> bool {
    let answer = ANSWER.get().filter(|_| is_there());
    answer.map(|answer| answer()).is_some()
}

/// Sleeps until `bell` is woken or something is requested, for at most `nanoseconds`. Returns at
/// once if the bell does not hold `expected`. Spurious wake-ups happen.
///
/// Where the kernel cannot wait for two words (before Linux 5.16, or in a sandbox), a request does
/// not end the sleep, and slow paths wake the sleeper.
pub fn sleep(bell: &AtomicU32, expected: u32, nanoseconds: u64) {
    let state = &request().state;
    if !core::ptr::eq(state, &raw const NOTHING.state) {
        // Relaxed: the kernel compares it with the word before it sleeps.
        let seen = state.load(Ordering::Relaxed);
        if is_there() || futex::wait_either((bell, expected), (state, seen), nanoseconds) {
            return;
        }
    }
    futex::wait_for(bell, expected, nanoseconds);
}
