//! The C API: `libsheaves.so` and `libsheaves.a`, and their header `include/sheaves.h`.
//!
//! The header is made of this source by `cargo xtask header`: the comments here are its
//! documentation and speak to people who write C. What cannot be said in Rust (macros, inlined fast
//! paths) is in `header/`.
//!
//! Rules that every function keeps: errors are values of `errno.h`, returned where a number is
//! returned, and put into `errno` where a pointer is; an argument that can be known to be wrong is
//! `EINVAL` and changes nothing; nothing here is called `malloc`, so that linking this library
//! takes over nothing.
//!
//! The object is linked `-z nodelete`: it stays until the process ends.
#![no_std]
// The standard library is linked for its panic handler alone; nothing of it is called.
extern crate std as _;

pub mod cache;
pub mod counter;
pub mod deferred;
pub mod memory;
pub mod percpu;
pub mod rcu;
pub mod report;
pub mod srcu;
pub mod urcu;

use core::ptr::null_mut;

use sheaves_sys::errno;

/// Null, with the reason in `errno`.
fn refuse<T>(reason: i32) -> *mut T {
    errno::set(reason);
    null_mut()
}

/// Memory of the heap for a value of a type; null where there is none.
fn unfilled<T>() -> *mut T {
    sheaves_heap::aligned_alloc(align_of::<T>(), size_of::<T>()).cast()
}

/// Moves a value to memory of the heap, for a handle of a C program.
fn boxed<T>(value: T) -> *mut T {
    let place = unfilled::<T>();
    if !place.is_null() {
        // SAFETY: fresh memory of the type's size and alignment.
        unsafe { place.write(value) };
    }
    place
}

/// Moves it back.
///
/// # Safety
/// `place` came from [`boxed`], and is used for the last time.
unsafe fn unboxed<T>(place: *mut T) -> T {
    // SAFETY: valid by the contract.
    let value = unsafe { place.read() };
    // SAFETY: memory of the heap, whose value was moved away.
    unsafe { sheaves_heap::free(place.cast()) };
    value
}
