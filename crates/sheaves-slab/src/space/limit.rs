//! A limit on the memory of the heap, and what is near it.
//!
//! No allocation fails because of the limit. From seven eighths of it on, memory that is unused
//! goes back to the kernel at once: all of it at first, then all that is freed, and again whenever
//! the heap has grown by a further thirty-second of the limit.
//!
//! | `IS_NEAR` | meaning | transitions |
//! |---|---|---|
//! | false | the heap keeps unused memory | -> true, from seven eighths on |
//! | true | depots take nothing, free slabs and mappings go back | -> false, below three quarters |

use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_rcu::defer::{self, Head};
use sheaves_rcu::internal::{self, keeper};
use sheaves_sys::function::FnCell;
use sheaves_sys::options::{self, Limit};
use sheaves_sys::{cgroup, probe, process, report, restart_word};

use crate::space::hint::Hint;

/// Called with the bytes of the heap and the limit.
pub type Callback = extern "C" fn(heap_bytes: usize, limit_bytes: usize);

/// In bytes; `usize::MAX` for none.
static LIMIT: Hint = Hint::new(usize::MAX);
/// From this many bytes on something has to be done.
static DUE_BYTES: Hint = Hint::new(usize::MAX);
/// 1 near the limit.
static IS_NEAR: Hint = Hint::new(0);
/// 1 if the limit is that of the control groups, which may change.
static IS_AUTO: Hint = Hint::new(0);
/// 1 once a line has said that the limit is near.
static HAS_REPORTED: Hint = Hint::new(0);
static CALLBACK: FnCell<Callback> = FnCell::new();
/// A function that is called once.
static ONCE: FnCell<fn()> = FnCell::new();
/// Bytes in use or dirty: of the chunks, and of the layers above.
static OWN_BYTES: Hint = Hint::new(0);
static OTHER_BYTES: Hint = Hint::new(0);

/// Sets the limit, at least 1 MiB; `None` removes it. Replaces what `SHEAVES_LIMIT` says.
pub fn set(bytes: Option<usize>) {
    IS_AUTO.set(0);
    change_to(bytes.unwrap_or(usize::MAX));
}

/// Sets a function that is called when unused memory was returned near the limit. It may free
/// memory. `None` removes it.
///
/// The library's thread calls it if there is one, after a grace period, as a deferred call.
/// Otherwise a thread that allocates or frees does, perhaps inside a read section or under locks of
/// the program.
pub fn on_near(callback: Option<Callback>) {
    CALLBACK.set(callback);
}

/// Sets a function that is called the first time that the limit is near, where [`on_near`]'s would
/// be.
pub fn once_near(function: fn()) {
    ONCE.set(Some(function));
}

/// The lowest limit, and the smallest step in which the heap grows near it.
const BYTES_MIN: usize = 1 << 20;

fn change_to(bytes: usize) {
    let bytes = bytes.max(BYTES_MIN);
    LIMIT.set(bytes);
    IS_NEAR.set(0);
    DUE_BYTES.set(near(bytes));
}

fn near(limit: usize) -> usize {
    if limit == usize::MAX { limit } else { limit - limit / 8 }
}

/// Sets the limit that `SHEAVES_LIMIT` asks for.
pub(crate) fn start_option() {
    let Some(limit) = options::LIMIT.limit() else { return };
    let system = || cgroup::limit_bytes().ok().flatten().map_or(usize::MAX, |it| it as usize);
    match limit {
        Limit::Auto => {
            IS_AUTO.set(1);
            change_to(system());
        }
        Limit::Bytes(bytes) => change_to(bytes),
        Limit::Percent(percent) => {
            change_to(system().min(process::physical_bytes()) / 100 * percent);
        }
    }
}

/// Reads the control groups' limit again, if it is the limit. It stays where they cannot be read:
/// in a sandbox, without `/proc`, without a free descriptor.
pub(crate) fn read_again() {
    if IS_AUTO.get() == 1
        && let Ok(limit) = cgroup::limit_bytes()
    {
        let limit = limit.map_or(usize::MAX, |bytes| bytes as usize);
        if limit != LIMIT.get() {
            change_to(limit);
        }
    }
}

/// True near the limit: nothing unused is to be kept.
#[inline]
#[must_use]
pub fn is_near() -> bool {
    IS_NEAR.get() != 0
}

/// The limit in bytes; `None` if there is none.
#[must_use]
pub fn bytes() -> Option<usize> {
    Some(LIMIT.get()).filter(|limit| *limit != usize::MAX)
}

/// How long memory may lie unused: `SHEAVES_DECAY_MS`, and not at all near the limit.
#[must_use]
pub fn decay_ms() -> Option<u64> {
    if is_near() { Some(0) } else { keeper::decay_ms() }
}

/// Notes the bytes of the chunks; true if something has to be done.
pub(crate) fn note_own(bytes: usize) -> bool {
    OWN_BYTES.set(bytes);
    is_due()
}

/// Notes the bytes of the layers above; true if something has to be done.
pub(crate) fn note_other(bytes: usize) -> bool {
    OTHER_BYTES.set(bytes);
    is_due()
}

/// Bytes of the heap that count: in use, or free with old contents.
#[must_use]
pub fn heap_bytes() -> usize {
    OWN_BYTES.get() + OTHER_BYTES.get()
}

fn is_due() -> bool {
    let (limit, bytes, due) = (LIMIT.get(), heap_bytes(), DUE_BYTES.get());
    if is_near() && bytes < limit / 4 * 3 {
        IS_NEAR.set(0);
        DUE_BYTES.set(near(limit));
    } else if is_near() && bytes.saturating_add(2 * step(bytes)) < due {
        DUE_BYTES.set(near(limit).max(bytes + step(bytes)));
    }
    bytes >= due
}

/// By how much the heap grows near the limit before unused memory is returned again.
fn step(bytes: usize) -> usize {
    (LIMIT.get().min(bytes) / 32).max(BYTES_MIN)
}

/// 1 while a thread is between [`begin`] and [`end`].
static IS_BUSY: Hint = Hint::new(0);

/// Before unused memory is returned near the limit. False if the limit is not near any more, or
/// another thread returns it.
pub(crate) fn begin() -> bool {
    if heap_bytes() < DUE_BYTES.get() || IS_BUSY.swap(1) != 0 {
        return false;
    }
    read_again();
    if heap_bytes() < DUE_BYTES.get() {
        IS_BUSY.set(0);
        return false;
    }
    IS_NEAR.set(1);
    probe::limit_near(heap_bytes(), LIMIT.get());
    if HAS_REPORTED.swap(1) == 0 {
        report::report(format_args!(
            "the heap has {} MiB, its limit is {} MiB: unused memory goes back to the kernel",
            heap_bytes() >> 20,
            LIMIT.get() >> 20
        ));
    }
    true
}

/// After unused memory was returned near the limit: tells the program.
pub(crate) fn end() {
    DUE_BYTES.set(near(LIMIT.get()).max(heap_bytes().saturating_add(step(heap_bytes()))));
    // Notes it if the limit is far now.
    is_due();
    IS_BUSY.set(0);
    if CALLBACK.get().is_none() && ONCE.get().is_none() {
        return;
    }
    if internal::reclaimer_thread().is_none() {
        call();
    // Acquire pairs with the Release in `call_later`: the head is idle.
    } else if !IS_CALLED.swap(true, Ordering::Acquire) {
        // SAFETY: the head is static, and not queued: the flag says so.
        unsafe { defer::call_hurry((&raw const HEAD).cast_mut(), call_later) };
    }
}

/// By this head the reclaimer is asked to call the callback.
static HEAD: Head = Head::new();
/// True while the head is queued.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn call_later(_: *mut Head) {
    // Release pairs with the Acquire in `end`.
    IS_CALLED.store(false, Ordering::Release);
    call();
}

fn call() {
    if let Some(once) = ONCE.take() {
        once();
    }
    if let Some(callback) = CALLBACK.get() {
        callback(heap_bytes(), LIMIT.get());
    }
}

/// In the child of a fork: another thread may have been between [`begin`] and [`end`], or about to
/// queue the head, or to call its callback.
pub(crate) fn restart_in_child() {
    IS_BUSY.restart(0);
    restart_word!(IS_CALLED, internal::is_queued(&HEAD));
    DUE_BYTES.restart(near(LIMIT.get()));
}

#[cfg(test)]
#[path = "../../tests/unit/limit.rs"]
mod tests;
