//! `locked` and `tid`: the "before" of the 2011 result and what Linux did instead, see
//! [`sheaves_history`].

use sheaves_history::lock_per_cpu::Locked;
#[cfg(target_arch = "x86_64")]
use sheaves_history::tid::Tid;

use super::allocator::Allocator;
use super::library::make_cache;
use crate::harness::Failure;

pub(crate) fn locked(size: usize) -> Result<Locked, Failure> {
    Ok(Locked::new(make_cache("bench-locked", size)?))
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn tid(size: usize) -> Result<Tid, Failure> {
    Tid::new(make_cache("bench-tid", size)?)
        .ok_or_else(|| Failure::run("this CPU has no 16-byte compare-and-exchange for `tid`"))
}

macro_rules! allocator {
    ($type:ty) => {
        impl Allocator for $type {
            #[inline]
            fn alloc(&self, _size: usize) -> *mut u8 {
                self.alloc()
            }

            #[inline]
            unsafe fn free(&self, object: *mut u8, _size: usize) {
                // SAFETY: the same contract.
                unsafe { self.free(object) }
            }
        }
    };
}

allocator!(Locked);
#[cfg(target_arch = "x86_64")]
allocator!(Tid);
