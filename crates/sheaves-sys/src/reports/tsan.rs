//! What `ThreadSanitizer` is told, in programs that are built with it: this library is not.
//!
//! It does not see what orders deferred callbacks. (The C header tells it the same of all that C
//! programs call.) And of the library's own memory it sees only what libc's `memcpy` and the like
//! do, but not how threads pass that memory on.

use core::ffi::c_void;
use core::ptr::null;

use crate::function;
use crate::tls::weak_address;

type Function = unsafe extern "C" fn(*const c_void);

/// Calls a function, if the program is built with the sanitizer. Some ignore the argument.
macro_rules! call {
    ($symbol:literal, $address:expr) => {
        let found: *const c_void = weak_address!($symbol);
        // SAFETY: null, or a function of this type.
        if let Some(function) = unsafe { function::at::<Function>(found) } {
            // SAFETY: any address is allowed.
            unsafe { function($address) };
        }
    };
}

/// What was before a [`release`] of this address is before what follows.
pub fn acquire<T>(address: *const T) {
    call!("__tsan_acquire", address.cast());
}

/// What was before is before what follows an [`acquire`] of this address.
pub fn release<T>(address: *const T) {
    call!("__tsan_release", address.cast());
}

/// Runs a function that changes memory of the library's own.
#[inline]
pub fn unseen<R>(body: impl FnOnce() -> R) -> R {
    call!("__tsan_ignore_thread_begin", null());
    let result = body();
    call!("__tsan_ignore_thread_end", null());
    result
}
