//! The peers that are built with their protections, by the feature `peers-hardened`.

use core::ffi::c_void;

use crate::contenders::allocators::{Allocator, Workload};
use crate::harness::Contender;

pub(super) fn contenders<W: Workload>(workload: W) -> Vec<Contender> {
    vec![
        workload.contender("mimalloc-secure", || Mimalloc),
        workload.contender("snmalloc-checks", || Snmalloc),
    ]
}

macro_rules! peer {
    ($peer:ident, $alloc:path, $free:path) => {
        #[derive(Debug)]
        struct $peer;

        impl Allocator for $peer {
            #[inline]
            fn alloc(&self, size: usize) -> *mut u8 {
                // SAFETY: the size is above 0, and the peer asks for nothing else.
                let object: *mut c_void = unsafe { $alloc(size) };
                object.cast()
            }

            #[inline]
            unsafe fn free(&self, object: *mut u8, _size: usize) {
                // SAFETY: the object came from `alloc` and is given up here.
                unsafe { $free(object.cast::<c_void>()) };
            }
        }
    };
}

peer!(Mimalloc, libmimalloc_sys::mi_malloc, libmimalloc_sys::mi_free);
peer!(Snmalloc, snmalloc_sys::sn_malloc, snmalloc_sys::sn_free);
