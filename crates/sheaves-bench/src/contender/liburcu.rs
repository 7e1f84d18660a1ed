//! liburcu, in four flavours, through the loops in `liburcu.c` beside this file.
//!
//! - `memb` is what its users get without asking: membarrier, and threads that register.
//! - `mb` has a fence in every reader.
//! - `bp` registers threads by itself.
//! - `qsbr` has no cost for readers, but each thread has to announce when it is in no section.
//!
//! The library is linked to and used by its public interface alone. Its licence is LGPL 2.1.

use core::ptr::NonNull;

use super::Kind;
use super::read::{Chain, Node, Read, Root};
use super::wait::{Queue, Wait};
use crate::failure::Failure;
use crate::workload::flood::Object;

/// What a callback of liburcu is called with.
type Callback = unsafe extern "C" fn(NonNull<Object>);

/// The functions of one flavour. The layout is that of `struct flavour` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Flavour {
    enter_thread: unsafe extern "C" fn(),
    leave_thread: unsafe extern "C" fn(),
    pause: unsafe extern "C" fn(),
    resume: unsafe extern "C" fn(),
    sections: unsafe extern "C" fn(usize),
    loads: unsafe extern "C" fn(*const *mut Node, usize, usize) -> u64,
    synchronize: unsafe extern "C" fn(),
    call: unsafe extern "C" fn(NonNull<Object>, Callback),
}

unsafe extern "C" {
    safe static sheaves_bench_liburcu_memb: Flavour;
    safe static sheaves_bench_liburcu_mb: Flavour;
    safe static sheaves_bench_liburcu_bp: Flavour;
    safe static sheaves_bench_liburcu_qsbr: Flavour;
}

impl Flavour {
    fn of(kind: Kind) -> Result<Flavour, Failure> {
        Ok(match kind {
            Kind::UrcuMemb => sheaves_bench_liburcu_memb,
            Kind::UrcuMb => sheaves_bench_liburcu_mb,
            Kind::UrcuBp => sheaves_bench_liburcu_bp,
            Kind::UrcuQsbr => sheaves_bench_liburcu_qsbr,
            _ => return Err(Failure::run(format!("{} is not of liburcu", kind.name()))),
        })
    }
}

/// A flavour in the table `readers`. The updater waits each time.
#[derive(Debug)]
pub(super) struct Reader {
    flavour: Flavour,
    root: Root,
}

impl Reader {
    pub(super) fn new(kind: Kind, chain: Chain) -> Result<Reader, Failure> {
        Ok(Reader { flavour: Flavour::of(kind)?, root: Root::new(chain) })
    }
}

impl Read for Reader {
    fn enter_thread(&self) {
        // SAFETY: the thread is not registered: workloads leave what they have entered.
        unsafe { (self.flavour.enter_thread)() };
    }

    fn leave_thread(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { (self.flavour.leave_thread)() };
    }

    fn sections(&self, count: usize) {
        // SAFETY: the thread has entered.
        unsafe { (self.flavour.sections)(count) };
    }

    fn loads<const K: usize>(&self, count: usize) -> u64 {
        // SAFETY: the thread has entered, the chain has `K` nodes, and `replace` waits for readers.
        unsafe { (self.flavour.loads)(self.root.atomic().as_ptr(), K, count) }
    }

    fn replace(&self, chain: Chain) {
        let old = self.root.swap(chain);
        // SAFETY: workloads replace on a thread that has entered nothing.
        unsafe { (self.flavour.synchronize)() };
        // SAFETY: from a box, and all readers are gone.
        drop(unsafe { Box::from_raw(old.as_ptr()) });
    }
}

/// A flavour in the table `synchronize`.
#[derive(Debug)]
pub(super) struct Waiter {
    flavour: Flavour,
}

impl Waiter {
    pub(super) fn new(kind: Kind) -> Result<Waiter, Failure> {
        Ok(Waiter { flavour: Flavour::of(kind)? })
    }
}

impl Wait for Waiter {
    fn enter_thread(&self) {
        // SAFETY: the thread is not registered: workloads leave what they have entered.
        unsafe { (self.flavour.enter_thread)() };
    }

    fn leave_thread(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { (self.flavour.leave_thread)() };
    }

    fn pause(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { (self.flavour.pause)() };
    }

    fn resume(&self) {
        // SAFETY: the thread is registered, and has paused.
        unsafe { (self.flavour.resume)() };
    }

    #[inline]
    fn synchronize(&self) {
        // SAFETY: the thread is in no section.
        unsafe { (self.flavour.synchronize)() };
    }

    unsafe fn call(&self, _: Queue, object: NonNull<Object>) {
        // SAFETY: the thread has entered, and the object begins with room for the head.
        unsafe { (self.flavour.call)(object, end) };
    }
}

/// # Safety
/// The object was queued.
unsafe extern "C" fn end(object: NonNull<Object>) {
    // SAFETY: the caller's promise.
    unsafe { Object::end(object) };
}
