//! Runs the fork handlers of other objects while this object holds no lock.
//!
//! Before a fork libc runs handlers in the reverse order of their registration. So those of this
//! object have to be registered first: it defines the function that `pthread_atfork` of every
//! object calls. Then handlers of other objects may even wait for threads that allocate.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;

use sheaves_sys::errno::ENOMEM;
use sheaves_sys::{fork, function, object};

type Handler = Option<unsafe extern "C" fn()>;
type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

/// libc's function, once it is known.
#[unsafe(link_section = ".sheaves_load")]
static REGISTER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The function that `pthread_atfork(3)` calls in glibc, with the object that owns the handlers.
///
/// # Safety
/// As there: the handlers may be called at every fork until the object is unloaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    object: *mut c_void,
) -> c_int {
    // The first call comes back here by way of `pthread_atfork`.
    fork::register();
    let next = object::next_symbol_kept(&REGISTER, c"__register_atfork");
    // SAFETY: null, or libc's function, which has this type.
    let next = unsafe { function::at::<Register>(next) };
    // SAFETY: the caller's contract.
    next.map_or(ENOMEM, |next| unsafe { next(prepare, parent, child, object) })
}
