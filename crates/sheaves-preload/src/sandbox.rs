//! `prctl` and `syscall`, to notice that the program is about to enter a sandbox.
//!
//! In a sandbox the library makes fewer system calls, and has no thread: see
//! [`sheaves_heap::before_sandbox`]. No call can ask whether there is one, so the calls that make
//! it are noticed. Both functions jump to libc's with all registers and the stack as they were, so
//! they may have any arguments, and may be called anywhere: in a signal handler, after `vfork`, and
//! before the constructors of this object.

use core::ffi::{CStr, c_long, c_void};
use core::sync::atomic::AtomicPtr;

use sheaves_sys::{errno, lock, object, request, sandbox};

/// libc's functions, which these hide; null until they are looked up.
#[unsafe(link_section = ".sheaves_load")]
static PRCTL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
#[unsafe(link_section = ".sheaves_load")]
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

// The loader may allocate while it looks a symbol up: not in the middle of a program's call.
sheaves_sys::run_when_loaded!({
    before_prctl(0, 0, 0);
    before_syscall(0, 0, 0, 0);
});

/// Defines a function of libc that calls `before` with its arguments, if its first one is one of
/// two numbers or the real function is not known yet, and then jumps to the real function.
macro_rules! noticing {
    ($(#[$doc:meta])* $name:ident, $next:ident, $before:ident, $first:expr, $second:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As there.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "mov r11, qword ptr [rip + {next}]",
                "test r11, r11",
                "jz 2f",
                "cmp edi, {first}",
                "je 2f",
                "cmp edi, {second}",
                "je 2f",
                "jmp r11",
                "2:",
                "push rax",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                ".cfi_adjust_cfa_offset 56",
                "call {before}",
                "mov r11, rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "pop rax",
                ".cfi_adjust_cfa_offset -56",
                "jmp r11",
                ".cfi_endproc",
                next = sym $next,
                before = sym $before,
                first = const $first,
                second = const $second,
            )
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// As there.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "adrp x16, {next}",
                "ldr x16, [x16, :lo12:{next}]",
                "cbz x16, 2f",
                "mov w17, {first}",
                "cmp w0, w17",
                "b.eq 2f",
                "mov w17, {second}",
                "cmp w0, w17",
                "b.eq 2f",
                "br x16",
                "2:",
                "stp x0, x1, [sp, #-80]!",
                ".cfi_adjust_cfa_offset 80",
                "stp x2, x3, [sp, #16]",
                "stp x4, x5, [sp, #32]",
                "stp x6, x7, [sp, #48]",
                "stp x8, x30, [sp, #64]",
                ".cfi_offset x30, -8",
                "bl {before}",
                "mov x16, x0",
                "ldp x2, x3, [sp, #16]",
                "ldp x4, x5, [sp, #32]",
                "ldp x6, x7, [sp, #48]",
                "ldp x8, x30, [sp, #64]",
                ".cfi_restore x30",
                "ldp x0, x1, [sp], #80",
                ".cfi_adjust_cfa_offset -80",
                "br x16",
                ".cfi_endproc",
                next = sym $next,
                before = sym $before,
                first = const $first,
                second = const $second,
            )
        }
    };
}

noticing! {
    /// `prctl(2)`.
    prctl, PRCTL, before_prctl, sandbox::PR_SET_SECCOMP, sandbox::PR_SET_SECCOMP
}

noticing! {
    /// `syscall(2)`.
    syscall, SYSCALL, before_syscall, sandbox::SYS_SECCOMP, sandbox::SYS_PRCTL
}

/// Notes a call of `prctl`, and returns libc's function.
extern "C" fn before_prctl(option: i32, mode: usize, filter: usize) -> *mut c_void {
    note(sandbox::is_entered_by_prctl(option, mode, filter));
    next(&PRCTL, c"prctl")
}

/// Notes a call of `syscall`, and returns libc's function.
extern "C" fn before_syscall(
    number: i32,
    first: usize,
    second: usize,
    third: usize,
) -> *mut c_void {
    note(sandbox::is_entered_by_syscall(number, [first, second, third]));
    next(&SYSCALL, c"syscall")
}

/// A sandbox is about to be entered, or not.
fn note(is_entered: bool) {
    // The first sandbox may not permit what a second one would need. A child of `vfork` shares the
    // memory of its parent, and is about to call `exec`.
    if !is_entered || sandbox::is_entered() || request::is_other_process() {
        return;
    }
    if lock::is_any_held_here() {
        // A signal handler, in the middle of the library: its own locks cannot be waited for.
        sandbox::approach();
        sandbox::enter();
    } else {
        errno::preserve(sheaves_heap::before_sandbox);
    }
}

/// libc's function of a name.
fn next(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let next = object::next_symbol_kept(known, name);
    if next.is_null() { refuse as *mut c_void } else { next }
}

/// Used where libc lacks the function.
extern "C" fn refuse() -> c_long {
    errno::set(errno::ENOSYS);
    -1
}
