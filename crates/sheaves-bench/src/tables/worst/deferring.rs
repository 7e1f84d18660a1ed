//! Allocators whose `free` is deferred until readers are gone: the contenders of `free_rcu`.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use seize::Guard;

use crate::contenders::allocators::glibc::Glibc;
use crate::contenders::allocators::library::Malloc;
#[cfg(feature = "peers")]
use crate::contenders::allocators::peers::Mimalloc;
use crate::contenders::allocators::{Allocator, Workload};
use crate::harness::Contender;

/// The contenders of `malloc` that are not Sheaves.
pub(super) const PEERS: &[&str] = if cfg!(feature = "peers") {
    &[
        "crossbeam-epoch",
        "seize",
        "haphazard",
        "liburcu-call_rcu",
        "crossbeam-epoch+mimalloc",
        "liburcu-call_rcu+mimalloc",
    ]
} else {
    &["crossbeam-epoch", "seize", "haphazard"]
};

pub(super) fn contenders<W: Workload>(workload: W) -> Vec<Contender> {
    let mut contenders = vec![
        workload.contender("malloc", || FreeRcu),
        workload.contender("crossbeam-epoch", Crossbeam::<Glibc>::default),
        workload.contender("seize", Seize::default),
    ];
    contenders.push(workload.contender("haphazard", || Haphazard));
    #[cfg(feature = "peers")]
    contenders.extend([
        workload.contender("liburcu-call_rcu", liburcu::CallRcu::<Glibc>::default),
        workload.contender("crossbeam-epoch+mimalloc", Crossbeam::<Mimalloc>::default),
        workload.contender("liburcu-call_rcu+mimalloc", liburcu::CallRcu::<Mimalloc>::default),
    ]);
    contenders
}

/// Sheaves: `free_rcu` of blocks of the heap.
struct FreeRcu;

impl Allocator for FreeRcu {
    fn alloc(&self, size: usize) -> *mut u8 {
        Malloc.alloc(size)
    }

    unsafe fn free(&self, object: *mut u8, _size: usize) {
        // SAFETY: the caller's promise.
        unsafe { sheaves_heap::free_rcu(object) };
    }
}

/// `crossbeam-epoch`: `defer_unchecked`.
#[derive(Debug, Default)]
struct Crossbeam<M>(PhantomData<M>);

impl<M: Allocator + Default> Allocator for Crossbeam<M> {
    fn alloc(&self, size: usize) -> *mut u8 {
        M::default().alloc(size)
    }

    unsafe fn free(&self, object: *mut u8, size: usize) {
        let end = move || {
            // SAFETY: the caller's promise, for when readers are gone.
            unsafe { M::default().free(object, size) };
        };
        // SAFETY: the call may run anywhere and later: it owns the object.
        unsafe { crossbeam_epoch::pin().defer_unchecked(end) };
    }
}

/// `seize`: `defer_retire`, in batches of its usual size.
#[derive(Debug, Default)]
struct Seize(seize::Collector);

/// # Safety
/// The object is glibc's, and its readers are gone.
unsafe fn reclaim(object: *mut u8, _: &seize::Collector) {
    // SAFETY: the caller's promise.
    unsafe { Glibc.free(object, 0) };
}

impl Allocator for Seize {
    fn alloc(&self, size: usize) -> *mut u8 {
        Glibc.alloc(size)
    }

    unsafe fn free(&self, object: *mut u8, _size: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.enter().defer_retire(object, reclaim) };
    }
}

/// `haphazard`: `retire_ptr`, in its global domain.
#[derive(Debug)]
struct Haphazard;

struct Held(NonNull<u8>);

impl Deref for Held {
    type Target = u8;

    fn deref(&self) -> &u8 {
        // SAFETY: the box owns the object.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the box owned the object, which is glibc's.
        unsafe { Glibc.free(self.0.as_ptr(), 0) };
    }
}

// SAFETY: both directions keep the address.
unsafe impl haphazard::raw::Pointer<u8> for Held {
    fn into_raw(self) -> *mut u8 {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    unsafe fn from_raw(object: *mut u8) -> Held {
        // SAFETY: from `into_raw`, or a live object, so never null.
        Held(unsafe { NonNull::new_unchecked(object) })
    }
}

impl Allocator for Haphazard {
    fn alloc(&self, size: usize) -> *mut u8 {
        Glibc.alloc(size)
    }

    unsafe fn free(&self, object: *mut u8, _size: usize) {
        let domain = haphazard::Domain::global();
        // SAFETY: the caller gives the object up, and the domain lives for ever.
        unsafe { domain.retire_ptr::<u8, Held>(object) };
    }
}

/// liburcu: `call_rcu` of its usual flavour.
#[cfg(feature = "peers")]
mod liburcu {
    use core::ffi::c_void;
    use core::marker::PhantomData;
    use core::ptr::NonNull;

    use crate::contenders::allocators::Allocator;
    use crate::contenders::liburcu::{Flavour, flavours};

    fn flavour() -> Flavour {
        let [(_, memb), ..] = flavours();
        memb
    }

    /// The registration of a thread, which its readers and `call_rcu` need.
    struct Registered;

    thread_local! {
        static REGISTERED: Registered = Registered::new();
    }

    impl Registered {
        fn new() -> Registered {
            // SAFETY: the thread is not registered: it does this once.
            unsafe { (flavour().enter_thread)() };
            Registered
        }
    }

    impl Drop for Registered {
        fn drop(&mut self) {
            // SAFETY: the thread is registered, and in no section.
            unsafe { (flavour().leave_thread)() };
        }
    }

    #[derive(Debug, Default)]
    pub(super) struct CallRcu<M>(PhantomData<M>);

    /// # Safety
    /// The object is of that memory, and its readers are gone.
    unsafe extern "C" fn end<M: Allocator + Default>(object: NonNull<c_void>) {
        // SAFETY: the caller's promise.
        unsafe { M::default().free(object.as_ptr().cast(), 0) };
    }

    impl<M: Allocator + Default> Allocator for CallRcu<M> {
        fn alloc(&self, size: usize) -> *mut u8 {
            M::default().alloc(size)
        }

        unsafe fn free(&self, object: *mut u8, _size: usize) {
            // SAFETY: the caller's promise: a live object is not null.
            let object = unsafe { NonNull::new_unchecked(object.cast()) };
            // SAFETY: the thread is registered, and blocks of 500 bytes have room for the head.
            unsafe { (flavour().call)(object, end::<M>) };
        }

        fn enter_thread(&self) {
            REGISTERED.with(|_| ());
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_worst_deferring.rs"]
mod tests;
