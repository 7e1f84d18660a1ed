//! RCU: read sections and grace periods.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sheaves_rcu::internal::end_expedite;
use sheaves_rcu::{Cookie, expedite, raw};
use sheaves_sys::errno::{EDEADLK, EINVAL};

/// The grace-period sequence, which an outermost read section copies to its thread's word: for the
/// inlined readers of the header. Its address, since a linker could copy the word itself into a
/// program.
#[unsafe(no_mangle)]
pub static sheaves_rcu_sequence: &AtomicU64 = raw::SEQUENCE;

/// Begins a read section: what the thread can reach stays valid until the section ends.
///
/// Two loads and a store for the outermost section, no atomic instruction, no fence; inlined where
/// the compiler can. Sections nest. Any thread may read at any time, without registration, also in
/// signal handlers and in destructors of thread-local data. Never blocks. Sections that are open at
/// a fork stay open in the child for the thread that forked.
///
/// A thread that ends inside a section, by pthread_exit or cancellation, leaves it open forever: no
/// later grace period ends, which is reported on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_read_lock() {
    raw::lock();
}

/// Ends the innermost read section of this thread. Without an open section the process aborts.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_read_unlock() {
    // SAFETY: without an open section, the thread's word shows it.
    unsafe { raw::unlock() };
}

/// True while the calling thread is inside a read section.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_is_reading() -> bool {
    sheaves_rcu::is_reading()
}

/// Marks the calling thread idle until its next read section. Does nothing inside a section. Never
/// blocks. Not for signal handlers.
///
/// A thread that has read more than 256 times makes grace periods interrupt the CPUs, unless it has
/// called this, has ended, waits for a grace period, or defers now and then.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_enter_idle() {
    sheaves_rcu::enter_idle();
}

/// Waits for a grace period: until all readers that began before this call have ended.
///
/// The calling thread does the work itself or shares the result of another thread's: it takes from
/// less than a microsecond to as long as the longest reader. Sleeps; not for signal handlers.
///
/// 0; EDEADLK, with a line on standard error, inside a read section, where it would deadlock.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_synchronize() -> c_int {
    sheaves_rcu::synchronize().map_or(EDEADLK, |()| 0)
}

/// sheaves_rcu_synchronize that spins for longer before it sleeps, for a lower latency.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_synchronize_expedited() -> c_int {
    sheaves_rcu::synchronize_expedited().map_or(EDEADLK, |()| 0)
}

/// Snapshot of the grace-period state, as of the kernel's get_state_synchronize_rcu. A number that
/// may be copied, stored, compared (the smaller one completes first) and used in any thread, and in
/// parent and child of a fork.
pub type SheavesRcuCookie = u64;

/// Takes a snapshot, and starts no grace period: the snapshot completes with one that another
/// thread starts. Two loads and a fence. Never blocks; async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_get_cookie() -> SheavesRcuCookie {
    Cookie::get().to_bits()
}

/// Takes a snapshot and starts a grace period for it, if one can be started now. Never blocks;
/// async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_start_poll() -> SheavesRcuCookie {
    Cookie::start_poll().to_bits()
}

/// As sheaves_rcu_start_poll, but immediately: interrupts all CPUs that run this process.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_start_poll_expedited() -> SheavesRcuCookie {
    Cookie::start_poll_expedited().to_bits()
}

/// True if all readers from before the snapshot have ended. Advances the grace period as far as
/// possible without waiting, if one was requested. Once true it stays true. Never blocks;
/// async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_poll(cookie: SheavesRcuCookie) -> bool {
    Cookie::from_bits(cookie).poll()
}

/// Waits until all readers from before the snapshot have ended. Sleeps; not for signal handlers.
///
/// 0; EDEADLK inside a read section, unless the snapshot is complete; EINVAL for a number that is
/// not a snapshot because it is in the future.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_wait(cookie: SheavesRcuCookie) -> c_int {
    if cookie > Cookie::get().to_bits() {
        return EINVAL;
    }
    Cookie::from_bits(cookie).wait().map_or(EDEADLK, |()| 0)
}

/// Expedites all grace periods of the process until sheaves_rcu_expedite_end. Nests.
/// Async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_expedite_begin() {
    core::mem::forget(expedite());
    // Relaxed: a count, through which nothing is published.
    BEGUN.fetch_add(1, Ordering::Relaxed);
}

/// How many begins have no end yet: guards of Rust code are none of them.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Ends one sheaves_rcu_expedite_begin, in any thread. 0; EINVAL without one.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_expedite_end() -> c_int {
    let less = |begun: u32| begun.checked_sub(1);
    // Relaxed, both: as above.
    if BEGUN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
        return EINVAL;
    }
    end_expedite();
    0
}

/// Ends the startup phase, in which grace periods are expedited. The phase starts with the first
/// grace period and lasts at least a second and at most ten. Async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_end_startup() {
    sheaves_rcu::end_startup();
}
