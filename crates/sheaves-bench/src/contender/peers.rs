//! The peers: other allocators, called through their own C functions under their own names.
//!
//! None of them takes the name `malloc`, and none is the global allocator. A sized form is the one
//! in which the caller tells the size again when it frees, where the peer has such a form.

use core::ffi::c_void;
use std::sync::Once;

use super::{Contender, Kind, Visitor};
use crate::failure::Failure;

/// Calls `visitor` with the peer.
pub(crate) fn visit<V: Visitor>(kind: Kind, visitor: V) -> Result<V::Out, Failure> {
    Ok(match kind {
        Kind::Mimalloc => visitor.visit(Mimalloc),
        Kind::MimallocSized => visitor.visit(MimallocSized),
        Kind::Jemalloc => visitor.visit(Jemalloc),
        Kind::JemallocSized => visitor.visit(JemallocSized),
        Kind::Snmalloc => visitor.visit(Snmalloc),
        Kind::SnmallocSized => visitor.visit(SnmallocSized),
        Kind::Rpmalloc => visitor.visit(Rpmalloc::new()),
        Kind::TcmallocPerCpu | Kind::TcmallocPerThread => visitor.visit(Tcmalloc),
        Kind::TcmallocSizedPerCpu | Kind::TcmallocSizedPerThread => visitor.visit(TcmallocSized),
        _ => return Err(Failure::run(format!("{} is not a peer", kind.name()))),
    })
}

macro_rules! peer {
    (
        $(#[$doc:meta])* $peer:ident,
        |$size:ident| $alloc:expr,
        |$object:ident, $known:ident| $free:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $peer;

        impl Contender for $peer {
            #[inline]
            fn alloc(&self, $size: usize) -> *mut u8 {
                // SAFETY: the size is above 0, and the peer asks for nothing else.
                let object: *mut c_void = unsafe { $alloc };
                object.cast()
            }

            #[inline]
            unsafe fn free(&self, object: *mut u8, $known: usize) {
                let $object = object.cast::<c_void>();
                // SAFETY: the object came from `alloc` of that size and is given up here.
                unsafe { $free };
            }
        }
    };
}

peer! {
    /// mimalloc 3: `mi_malloc` and `mi_free`.
    Mimalloc,
    |size| libmimalloc_sys::mi_malloc(size),
    |object, _size| libmimalloc_sys::mi_free(object)
}

peer! {
    /// mimalloc 3: `mi_malloc` and `mi_free_size`.
    MimallocSized,
    |size| libmimalloc_sys::mi_malloc(size),
    |object, size| libmimalloc_sys::mi_free_size(object, size)
}

peer! {
    /// jemalloc 5: `malloc` and `free`, prefixed.
    Jemalloc,
    |size| tikv_jemalloc_sys::malloc(size),
    |object, _size| tikv_jemalloc_sys::free(object)
}

peer! {
    /// jemalloc 5: `mallocx` and `sdallocx`, without flags.
    JemallocSized,
    |size| tikv_jemalloc_sys::mallocx(size, 0),
    |object, size| tikv_jemalloc_sys::sdallocx(object, size, 0)
}

peer! {
    /// snmalloc 0.7: `sn_malloc` and `sn_free`.
    Snmalloc,
    |size| snmalloc_sys::sn_malloc(size),
    |object, _size| snmalloc_sys::sn_free(object)
}

peer! {
    /// snmalloc 0.7: what its Rust crate calls, with size and alignment on both sides.
    SnmallocSized,
    |size| snmalloc_sys::sn_rust_alloc(super::ours::layout_of(size).align(), size),
    |object, size| snmalloc_sys::sn_rust_dealloc(object, super::ours::layout_of(size).align(), size)
}

peer! {
    /// tcmalloc: `malloc` and `free`, under its internal names.
    Tcmalloc,
    |size| TCMallocInternalMalloc(size),
    |object, _size| TCMallocInternalFree(object)
}

peer! {
    /// tcmalloc: `operator new` and the sized `operator delete`, under its internal names.
    TcmallocSized,
    |size| TCMallocInternalNew(size),
    |object, size| TCMallocInternalDeleteSized(object, size)
}

// The crate declares only its own bridge; the library beneath has the whole family.
unsafe extern "C" {
    fn TCMallocInternalMalloc(size: usize) -> *mut c_void;
    fn TCMallocInternalFree(object: *mut c_void);
    fn TCMallocInternalNew(size: usize) -> *mut c_void;
    fn TCMallocInternalDeleteSized(object: *mut c_void, size: usize);
    fn MallocExtension_Internal_GetPerCpuCachesActive() -> bool;
}

// Named so that the library is linked.
use libtcmalloc_sys as _;

/// Whether tcmalloc really keeps its caches as the mode says; a figure under the wrong name would
/// be worse than none.
pub(crate) fn check_mode(mode: &str) -> Result<(), Failure> {
    // The first allocation decides the mode.
    let object = Tcmalloc.alloc(64);
    // SAFETY: allocated above and freed once.
    unsafe { Tcmalloc.free(object, 64) };
    // SAFETY: the function has no precondition.
    let per_cpu = unsafe { MallocExtension_Internal_GetPerCpuCachesActive() };
    if per_cpu == (mode == "percpu") {
        return Ok(());
    }
    let found = if per_cpu { "per CPU" } else { "per thread" };
    Err(Failure::run(format!("tcmalloc keeps its caches {found} where '{mode}' was expected")))
}

/// rpmalloc 1.4: `rpmalloc` and `rpfree`. It has no sized form.
#[derive(Debug)]
pub(crate) struct Rpmalloc;

impl Rpmalloc {
    fn new() -> Rpmalloc {
        static START: Once = Once::new();
        START.call_once(|| {
            // SAFETY: called once, before any other function of the library.
            unsafe { rpmalloc_sys::rpmalloc_initialize() };
        });
        Rpmalloc
    }
}

impl Contender for Rpmalloc {
    #[inline]
    fn alloc(&self, size: usize) -> *mut u8 {
        // SAFETY: `enter_thread` has run on this thread.
        unsafe { rpmalloc_sys::rpmalloc(size) }.cast()
    }

    #[inline]
    unsafe fn free(&self, object: *mut u8, _size: usize) {
        // SAFETY: the object came from `alloc` and is given up here.
        unsafe { rpmalloc_sys::rpfree(object.cast()) }
    }

    fn enter_thread(&self) {
        // SAFETY: the library was initialized by `new`; a second call on a thread does nothing.
        unsafe { rpmalloc_sys::rpmalloc_thread_initialize() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::checks::{churn, exchange};

    fn check<C: Contender>(contender: C) {
        contender.enter_thread();
        let object = contender.alloc(100);
        // SAFETY: the object is fresh and holds a hundred bytes.
        unsafe { object.write_bytes(1, 100) };
        // SAFETY: allocated above and freed once.
        unsafe { contender.free(object, 100) };
    }

    #[test]
    fn every_peer_can_be_called() {
        check(Mimalloc);
        check(MimallocSized);
        check(Jemalloc);
        check(JemallocSized);
        check(Snmalloc);
        check(SnmallocSized);
        check(Rpmalloc::new());
        check(Tcmalloc);
        check(TcmallocSized);
    }

    #[test]
    fn sized_and_unsized_forms_agree_between_threads() {
        churn(&MimallocSized, 64);
        exchange(&JemallocSized, 64);
        exchange(&SnmallocSized, 64);
        churn(&TcmallocSized, 64);
    }

    #[test]
    fn the_mode_is_checked() {
        // Whichever holds in this process, it cannot be both.
        assert_ne!(check_mode("percpu").is_ok(), check_mode("perthread").is_ok());
    }
}
