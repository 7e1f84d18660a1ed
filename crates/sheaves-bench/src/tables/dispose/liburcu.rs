//! liburcu, flavour `memb`, through the loops in `liburcu.c` beside this file.
//!
//! `call_rcu` links an object by its head and has a thread of the library call its function;
//! `defer_rcu` fills a ring of each thread, which waits for readers itself when the ring is full.
//! Linked to and used by its public interface alone; its licence is LGPL 2.1.

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::contenders::{Dispose, OBJECT_BYTES};
use super::memory::{Memory, Object, free};

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

/// `liburcu-call_rcu`, with the thread that the library starts by itself.
#[derive(Debug, Default)]
pub(super) struct CallRcu<M>(PhantomData<M>);

/// `liburcu-defer_rcu`.
#[derive(Debug, Default)]
pub(super) struct DeferRcu<M>(PhantomData<M>);

impl<M: Memory> Dispose for CallRcu<M> {
    fn enter_thread(&self) {
        // SAFETY: the thread is not registered: workloads leave what they have entered.
        unsafe { sheaves_bench_dispose_enter() };
    }

    fn leave_thread(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { sheaves_bench_dispose_leave() };
    }

    fn dispose(&self) {
        self.repeat(1);
    }

    fn repeat(&self, count: usize) {
        // SAFETY: the thread has entered, and an object begins with room for the head.
        unsafe { sheaves_bench_dispose_call(count, allocate::<M>, end::<M>) };
    }

    fn finish(&self) {
        // SAFETY: the thread is in no section and in no call.
        unsafe { sheaves_bench_dispose_finish_call() };
    }
}

impl<M: Memory> Dispose for DeferRcu<M> {
    fn enter_thread(&self) {
        // SAFETY: the thread is not registered: workloads leave what they have entered.
        unsafe { sheaves_bench_dispose_enter() };
        RING.with(|_| ());
    }

    fn leave_thread(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { sheaves_bench_dispose_leave() };
    }

    fn dispose(&self) {
        self.repeat(1);
    }

    fn repeat(&self, count: usize) {
        // SAFETY: the thread has entered and is in no section.
        unsafe { sheaves_bench_dispose_defer(count, allocate::<M>, end::<M>) };
    }

    fn finish(&self) {
        // SAFETY: the thread is in no section and in no call.
        unsafe { sheaves_bench_dispose_finish_defer() };
    }
}
