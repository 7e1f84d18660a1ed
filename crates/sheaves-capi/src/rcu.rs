//! RCU: readers, and those who wait for them.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_rcu::{Cookie, Expedite, expedite, raw};
use sheaves_sys::errno::{EDEADLK, EINVAL};

/// What an outermost read section copies to its thread's word: for the inlined readers of the
/// header.
///
/// A constant address of a word: the word itself could be copied into a program by its linker.
#[unsafe(no_mangle)]
pub static sheaves_rcu_sequence: &AtomicU64 = raw::SEQUENCE;

/// Begins a read section: what can be reached now stays valid until it ends.
///
/// Two loads and a store for the outermost section, no atomic instruction, no fence, and inlined
/// where the compiler can. Sections nest. Any thread may read at any time, without registration,
/// also in signal handlers and in destructors of thread-local data. Never blocks. Sections that are
/// open during a fork stay open in the child for the thread that forked.
///
/// A thread that ends inside a section, by pthread_exit or cancelled, leaves it open for good: no
/// grace period ends any more, which is reported on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_read_lock() {
    raw::lock();
}

/// Ends the innermost read section of this thread. Ending one that was not begun ends the process.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_read_unlock() {
    // SAFETY: a section that was not begun is recognised in the thread's word.
    unsafe { raw::unlock() };
}

/// True while the calling thread is inside of a read section.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_is_reading() -> bool {
    sheaves_rcu::is_reading()
}

/// Tells that the calling thread will not read for a while, which its next section ends. Does
/// nothing inside of a section. Grace periods interrupt nobody while every thread that has read
/// more than 256 times has called this, ended, waits for readers, or defers something now and then.
/// Never blocks. Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_enter_idle() {
    sheaves_rcu::enter_idle();
}

/// Waits until all readers that have begun before this call are gone.
///
/// Whoever calls this does the work itself, or shares what somebody else does: from less than a
/// microsecond to as long as the longest reader takes. Sleeps; not for signal handlers.
///
/// 0; EDEADLK, with a line on standard error, inside of a read section: it would wait for ever.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_synchronize() -> c_int {
    sheaves_rcu::synchronize().map_or(EDEADLK, |()| 0)
}

/// sheaves_rcu_synchronize, and never in line behind threads that ask again and again.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_synchronize_expedited() -> c_int {
    sheaves_rcu::synchronize_expedited().map_or(EDEADLK, |()| 0)
}

/// A moment, and the question whether all readers of that moment are gone. A number that may be
/// copied, kept, compared (the smaller is over first) and used in any thread, and in parent and
/// child of a fork.
pub type SheavesRcuCookie = u64;

/// The moment of now. Starts nothing: a grace period that others ask for will do. Two loads and a
/// fence. Never blocks; async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_get_cookie() -> SheavesRcuCookie {
    Cookie::get().to_bits()
}

/// The moment of now, for which a grace period is started if it may at this moment. Never blocks;
/// async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_start_poll() -> SheavesRcuCookie {
    Cookie::start_poll().to_bits()
}

/// As sheaves_rcu_start_poll, at once: interrupts all processors that run this process.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_start_poll_expedited() -> SheavesRcuCookie {
    Cookie::start_poll_expedited().to_bits()
}

/// Are all readers of that moment gone? Does what can be done for it without waiting, if it was
/// asked for. Once true it stays true. Never blocks; async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_poll(cookie: SheavesRcuCookie) -> bool {
    Cookie::from_bits(cookie).poll()
}

/// Waits until all readers of that moment are gone. Sleeps; not for signal handlers.
///
/// 0; EDEADLK where that is not known and the caller reads itself; EINVAL for a number that is no
/// cookie: it lies in the future.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_wait(cookie: SheavesRcuCookie) -> c_int {
    if cookie > Cookie::get().to_bits() {
        return EINVAL;
    }
    Cookie::from_bits(cookie).wait().map_or(EDEADLK, |()| 0)
}

/// How many calls of `sheaves_rcu_expedite_begin` are without their end.
static EXPEDITED: AtomicU64 = AtomicU64::new(0);

/// Expedites all grace periods of the process until sheaves_rcu_expedite_end. Nests.
/// Async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_expedite_begin() {
    core::mem::forget(expedite());
    // Relaxed: a count of calls, nothing is published through it.
    EXPEDITED.fetch_add(1, Ordering::Relaxed);
}

/// Ends what sheaves_rcu_expedite_begin began, in any thread. 0; EINVAL if nothing was.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_expedite_end() -> c_int {
    let less = |count: u64| count.checked_sub(1);
    // Relaxed, both: as above.
    if EXPEDITED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
        return EINVAL;
    }
    // SAFETY: counted above when it was forgotten, and counted down for this one.
    drop(unsafe { Expedite::of_forgotten() });
    0
}

/// Tells that the program has started: grace periods are expedited from the first one on until now,
/// for a second at least and for ten at most. Async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_end_startup() {
    sheaves_rcu::end_startup();
}
