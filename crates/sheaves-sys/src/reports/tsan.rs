//! What `ThreadSanitizer` is told, in programs that are built with it: this library is not.
//!
//! It does not see what orders deferred callbacks. (The C header tells it the same of all that C
//! programs call.) And of the library's own memory it sees only what libc's `memcpy` and the like
//! do, but not how threads pass that memory on.

use core::ffi::c_void;

use crate::tls;

/// What was before a [`release`] of this address is before what follows.
pub fn acquire<T>(address: *const T) {
    call(tls::tsan_acquire(), address.cast());
}

/// What was before is before what follows an [`acquire`] of this address.
pub fn release<T>(address: *const T) {
    call(tls::tsan_release(), address.cast());
}

/// Runs a function that changes memory of the library's own.
#[inline]
pub fn unseen<R>(body: impl FnOnce() -> R) -> R {
    call(tls::tsan_ignore_begin(), core::ptr::null());
    let result = body();
    call(tls::tsan_ignore_end(), core::ptr::null());
    result
}

#[inline]
fn call(function: Option<tls::Tsan>, address: *const c_void) {
    if let Some(function) = function {
        // SAFETY: any address is allowed.
        unsafe { function(address) };
    }
}
