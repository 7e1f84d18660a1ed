//! liburcu, in four flavours, through the loops in `flavour.c` beside this file. They are
//! contenders of `readers` and `synchronize`.
//!
//! - `memb` is what its users get without asking: membarrier, and threads that register.
//! - `mb` has a fence in every reader.
//! - `bp` registers threads by itself.
//! - `qsbr` has no cost for readers, but each thread has to announce when it is in no section: here
//!   after every 1024 short sections, as in liburcu's own tests, after each long one, and before it
//!   sleeps.
//!
//! The library is linked to and used by its public interface alone. Its licence is LGPL 2.1.

use core::ffi::c_void;
use core::ptr::NonNull;

/// What a callback of liburcu is called with: an object that begins with room for its head.
pub(crate) type Callback = unsafe extern "C" fn(NonNull<c_void>);

/// The functions of one flavour. The layout is that of `struct flavour` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Flavour {
    pub(crate) enter_thread: unsafe extern "C" fn(),
    pub(crate) leave_thread: unsafe extern "C" fn(),
    pub(crate) pause: unsafe extern "C" fn(),
    pub(crate) resume: unsafe extern "C" fn(),
    pub(crate) sections: unsafe extern "C" fn(usize),
    /// Of a pointer to a chain of `struct node`, with a depth and a count; the sum.
    pub(crate) loads: unsafe extern "C" fn(*const c_void, usize, usize) -> u64,
    /// That many sections of as many steps, of about a nanosecond each.
    pub(crate) busy: unsafe extern "C" fn(usize, usize) -> u64,
    pub(crate) synchronize: unsafe extern "C" fn(),
    pub(crate) call: unsafe extern "C" fn(NonNull<c_void>, Callback),
}

unsafe extern "C" {
    safe static sheaves_bench_liburcu_memb: Flavour;
    safe static sheaves_bench_liburcu_mb: Flavour;
    safe static sheaves_bench_liburcu_bp: Flavour;
    safe static sheaves_bench_liburcu_qsbr: Flavour;
}

pub(crate) fn flavours() -> [(&'static str, Flavour); 4] {
    [
        ("liburcu-memb", sheaves_bench_liburcu_memb),
        ("liburcu-mb", sheaves_bench_liburcu_mb),
        ("liburcu-bp", sheaves_bench_liburcu_bp),
        ("liburcu-qsbr", sheaves_bench_liburcu_qsbr),
    ]
}
