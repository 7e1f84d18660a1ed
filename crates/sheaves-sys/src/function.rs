//! Functions as addresses: those that are found by name, and those that a word holds.

use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::mem::transmute_copy;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The function at an address, `None` for null.
///
/// # Safety
/// The address is null, or that of a function which may be called by the function pointer `F`.
#[inline]
pub unsafe fn at<F: Copy>(address: *const c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: of one size, and a function by the caller's contract.
    (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
}

/// A word that holds a function pointer, or none. Async-signal-safe.
#[derive(Debug)]
pub struct FnCell<F>(AtomicPtr<c_void>, PhantomData<F>);

impl<F: Copy + fmt::Pointer> FnCell<F> {
    /// A word without a function.
    #[expect(clippy::new_without_default, reason = "one constructor is enough")]
    pub const fn new() -> FnCell<F> {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        FnCell(AtomicPtr::new(null_mut()), PhantomData)
    }

    /// Puts a function in place of the one that is there, or none. What was written before is there
    /// for the function.
    pub fn set(&self, function: Option<F>) {
        // SAFETY: of one size, and a function pointer is an address.
        let address = function.map_or(null_mut(), |function| unsafe { transmute_copy(&function) });
        // Release pairs with the Acquire in `get` and `take`.
        self.0.store(address, Ordering::Release);
    }

    /// The function.
    #[inline]
    pub fn get(&self) -> Option<F> {
        // Acquire pairs with the Release in `set`.
        // SAFETY: null, or stored by `set`.
        unsafe { at(self.0.load(Ordering::Acquire)) }
    }

    /// The function, which is there no more.
    #[must_use]
    pub fn take(&self) -> Option<F> {
        // Acquire pairs with the Release in `set`.
        // SAFETY: null, or stored by `set`.
        unsafe { at(self.0.swap(null_mut(), Ordering::Acquire)) }
    }
}
