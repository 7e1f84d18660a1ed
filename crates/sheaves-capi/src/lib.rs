//! The C API: `libsheaves.so` and `libsheaves.a`, and their header `include/sheaves.h`.
//!
//! `cargo xtask header` generates the header from this source: the comments of exported items are
//! its documentation, written for C programmers. Macros and inlined fast paths, which Rust cannot
//! express, are in `header/`.
//!
//! Every function keeps these rules. Errors are values of `errno.h`: the return value where it is a
//! number, `errno` where it is a pointer. An argument that is recognised as wrong is `EINVAL` and
//! changes nothing. No function is named `malloc`: linking this library does not replace the
//! program's allocator.
//!
//! The object is linked with `-z nodelete`: it stays loaded until the process ends.
#![no_std]
// Where panics unwind, in tests, the standard library is linked for its panic handler only; none of
// its functions is called.
#[cfg(panic = "unwind")]
extern crate std as _;

pub mod cache;
pub mod counter;
pub mod deferred;
pub mod memory;
pub mod percpu;
pub mod prof;
pub mod rcu;
pub mod report;
pub mod srcu;
#[cfg(panic = "abort")]
#[path = "../../sheaves-preload/src/standalone.rs"]
mod standalone;
pub mod urcu;

use core::ptr::null_mut;

// Answers tools: it is there once it is linked.
use sheaves_control as _;

use sheaves_sys::errno;

/// Sets `errno` and returns null.
fn refuse<T>(reason: i32) -> *mut T {
    errno::set(reason);
    null_mut()
}

/// Copies a structure to one of the caller's, which may be that of an older or newer header. What a
/// newer one has in addition is zeroed.
///
/// # Safety
/// `place` is valid for writes of `bytes` bytes.
unsafe fn write_as_much<T>(place: *mut T, bytes: usize, value: &T) {
    let (place, known) = (place.cast::<u8>(), bytes.min(size_of::<T>()));
    // SAFETY: no more bytes than either has.
    unsafe { core::ptr::copy_nonoverlapping((&raw const *value).cast(), place, known) };
    // SAFETY: `known` is at most `bytes`.
    let rest = unsafe { place.add(known) };
    // SAFETY: up to the end of the caller's structure.
    unsafe { rest.write_bytes(0, bytes - known) };
}

/// Moves a value to the heap, as a handle for a C program.
///
/// # Errors
/// The value, when memory is out.
fn boxed<T>(value: T) -> Result<*mut T, T> {
    let place = sheaves_heap::aligned_alloc(align_of::<T>(), size_of::<T>()).cast::<T>();
    if place.is_null() {
        return Err(value);
    }
    // SAFETY: fresh memory of the type's size and alignment.
    unsafe { place.write(value) };
    Ok(place)
}

/// Moves the value out and frees the handle.
///
/// # Safety
/// `place` came from [`boxed`], and is not used any more.
unsafe fn unboxed<T>(place: *mut T) -> T {
    // SAFETY: valid by the contract.
    let value = unsafe { place.read() };
    // SAFETY: memory of the heap, whose value was moved away.
    unsafe { sheaves_heap::free(place.cast()) };
    value
}
