//! `dlopen` without `RTLD_DEEPBIND`.
//!
//! An object that is loaded with that flag looks its symbols up in itself and its dependencies
//! first. So its `malloc` and `free` are libc's, and a block that passes between it and the program
//! is freed by the wrong heap. php loads all of its modules this way. This `dlopen` clears the
//! flag, unless `SHEAVES_DEEPBIND=1`.
//!
//! The loader uses the return address to find the caller, for `$ORIGIN`, `DT_RUNPATH` and the
//! namespace. So this function jumps to the real one and leaves nothing on the stack.
//!
//! `dlmopen` is not covered: a new namespace has a libc, and a heap, of its own.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;

use sheaves_sys::{object, options};

/// From `<dlfcn.h>`.
const RTLD_DEEPBIND: u32 = 8;

/// What `dlopen` jumps to, returned in two registers.
#[repr(C)]
struct Next {
    function: *const c_void,
    flags: u32,
}

/// `dlopen(3)`, with the flags as described above.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "mov edi, esi",
        "call {next}",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "mov esi, edx",
        "jmp rax",
        ".cfi_endproc",
        next = sym next,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x0, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_offset x30, -8",
        "mov w0, w1",
        "bl {next}",
        "mov x16, x0",
        "ldp x0, x30, [sp], #16",
        ".cfi_adjust_cfa_offset -16",
        ".cfi_restore x30",
        "br x16",
        ".cfi_endproc",
        next = sym next,
    );
}

/// libc's `dlopen`, which this one hides; null until it is looked up.
static DLOPEN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// What to jump to, and the flags for it.
extern "C" fn next(flags: u32) -> Next {
    let found = object::next_symbol_kept(&DLOPEN, c"dlopen");
    let function = if found.is_null() { no_dlopen as *const c_void } else { found };
    // This call may come before the constructors of this object.
    options::read();
    let cleared = if options::DEEPBIND.is_on() { 0 } else { RTLD_DEEPBIND };
    Next { function, flags: flags & !cleared }
}

/// Used where libc has no `dlopen`.
extern "C" fn no_dlopen(_path: *const c_char, _flags: c_int) -> *mut c_void {
    null_mut()
}
