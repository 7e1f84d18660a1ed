//! Profiles of the heap.

use core::ffi::c_int;

use sheaves_heap::profile;
use sheaves_sys::errno::{EINVAL, ENOMEM};

/// Records samples of allocations from now on, on average one in rate_bytes, from 1 KiB on; 0
/// stands for 512 KiB. Forgets earlier samples. The option SHEAVES_PROF does the same when the
/// program is loaded.
///
/// Callers are found by frame pointers (-fno-omit-frame-pointer), without these by the tables of
/// libgcc from version 12 on, which the first call loads by dlopen; else only the innermost one is
/// known. Interrupts the CPUs that run this process. 0; EINVAL for a lower rate; ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_prof_start(rate_bytes: usize) -> c_int {
    let rate = if rate_bytes == 0 { profile::RATE_BYTES } else { rate_bytes };
    match rate {
        ..profile::RATE_BYTES_MIN => EINVAL,
        _ if profile::start(rate) => 0,
        _ => ENOMEM,
    }
}

/// Records no further samples. Those that there are stay in dumps until they are freed.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_prof_stop() {
    profile::stop();
}

/// Writes the samples to a file descriptor, for the command `sheaves prof heap`. 0; EINVAL for a
/// negative descriptor. Text that the descriptor does not accept is lost. Interrupts the CPUs that
/// run this process.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_prof_dump(fd: c_int) -> c_int {
    if fd < 0 {
        return EINVAL;
    }
    profile::dump_to(fd);
    0
}
