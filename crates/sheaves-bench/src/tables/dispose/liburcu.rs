//! liburcu, flavour `memb`, through the loops in `liburcu.c` beside this file.
//!
//! `call_rcu` links an object by its head and has a thread of the library call its function;
//! `defer_rcu` fills a ring of each thread, which waits for readers itself when the ring is full.
//! Linked to and used by its public interface alone; its licence is LGPL 2.1.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::memory::{Memory, OBJECT_BYTES, Object, free};
use crate::contenders::deferral::Deferral;

type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(NonNull<Object>);

// As in `liburcu.c`.
unsafe extern "C" {
    fn sheaves_bench_dispose_enter();
    fn sheaves_bench_dispose_leave();
    fn sheaves_bench_dispose_call(count: usize, allocate: Allocate, free: Free);
    fn sheaves_bench_dispose_finish_call();
    fn sheaves_bench_dispose_open_ring();
    fn sheaves_bench_dispose_close_ring();
    fn sheaves_bench_dispose_defer(count: usize, allocate: Allocate, free: Free);
    fn sheaves_bench_dispose_finish_defer();
}

unsafe extern "C" fn allocate<M: Memory>(size: usize) -> *mut c_void {
    debug_assert_eq!(size, OBJECT_BYTES);
    M::THIS.alloc(size).cast()
}

/// # Safety
/// The object is of that memory, and its readers are gone.
unsafe extern "C" fn end<M: Memory>(object: NonNull<Object>) {
    // SAFETY: the caller's promise.
    unsafe { free::<M>(object) };
}

/// The ring of a thread, which it has for life: the library refuses to make a second one.
struct Ring;

thread_local! {
    static RING: Ring = Ring::open();
}

impl Ring {
    fn open() -> Ring {
        // SAFETY: the thread has no ring: it makes one once.
        unsafe { sheaves_bench_dispose_open_ring() };
        Ring
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the thread has a ring, and is in no section.
        unsafe { sheaves_bench_dispose_close_ring() };
    }
}

/// liburcu with objects of that memory, in either way.
#[derive(Debug, Default)]
pub(super) struct Liburcu<M, const HAS_RING: bool>(PhantomData<M>);

/// `liburcu-call_rcu`, with the thread that the library starts by itself.
pub(super) type CallRcu<M> = Liburcu<M, false>;
pub(super) type DeferRcu<M> = Liburcu<M, true>;

impl<M: Memory, const HAS_RING: bool> Deferral for Liburcu<M, HAS_RING> {
    fn enter_thread(&self) {
        // SAFETY: the thread is not registered: workloads leave what they have entered.
        unsafe { sheaves_bench_dispose_enter() };
        if HAS_RING {
            RING.with(|_| ());
        }
    }

    fn leave_thread(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { sheaves_bench_dispose_leave() };
    }

    fn dispose(&self) {
        self.repeat(1);
    }

    fn repeat(&self, count: usize) {
        let defer = if HAS_RING { sheaves_bench_dispose_defer } else { sheaves_bench_dispose_call };
        // SAFETY: the thread has entered, and an object begins with room for the head.
        unsafe { defer(count, allocate::<M>, end::<M>) };
    }

    fn finish(&self) {
        let finish = if HAS_RING {
            sheaves_bench_dispose_finish_defer
        } else {
            sheaves_bench_dispose_finish_call
        };
        // SAFETY: the thread is in no section and in no call.
        unsafe { finish() };
    }
}
