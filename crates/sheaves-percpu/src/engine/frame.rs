//! Entries of slow paths that take their caller's frame along, for samples of allocations.
//!
//! Only a naked function still finds the registers as its caller left them. On x86-64 it jumps on,
//! and its return address is where the stack pointer is. On aarch64 the return address is in a
//! register: the function stores it, and calls. On other architectures the frame is unknown.

/// Defines functions of up to three arguments that call another one with their arguments and their
/// own `Frame`: see `sheaves_sys::stack`. Its two words are passed in registers. In brackets is
/// `unsafe`, or nothing.
#[macro_export]
macro_rules! with_frame {
    ($(
        $(#[$attribute:meta])*
        $vis:vis [$($qualifier:tt)*] fn $name:ident($($arg:ident: $type:ty),+) -> $result:ty =
            $with_frame:path;
    )*) => {$(
        $(#[$attribute])*
        #[cfg_attr(
            all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri)),
            unsafe(naked)
        )]
        $vis $($qualifier)* extern "C" fn $name($($arg: $type),+) -> $result {
            $crate::jump_with_frame!($with_frame, $($arg),+)
        }
    )*};
}

/// The body of a naked function that is another one, whose address is in a static.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[macro_export]
macro_rules! jump_through {
    ($address:path) => {
        ::core::arch::naked_asm!("jmp qword ptr [rip + {address}]", address = sym $address)
    };
}

/// The body of a naked function that is another one, whose address is in a static.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[macro_export]
macro_rules! jump_through {
    ($address:path) => {
        ::core::arch::naked_asm!(
            "adrp x16, {address}",
            "ldr x16, [x16, :lo12:{address}]",
            "br x16",
            address = sym $address,
        )
    };
}

/// The body of a function of [`with_frame`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[doc(hidden)]
#[macro_export]
macro_rules! jump_with_frame {
    ($with_frame:path, $one:ident) => {
        $crate::jump_with_frame!(@ $with_frame, "rsi", "rdx")
    };
    ($with_frame:path, $one:ident, $two:ident) => {
        $crate::jump_with_frame!(@ $with_frame, "rdx", "rcx")
    };
    ($with_frame:path, $one:ident, $two:ident, $three:ident) => {
        $crate::jump_with_frame!(@ $with_frame, "rcx", "r8")
    };
    (@ $with_frame:path, $stack:literal, $frame:literal) => {
        ::core::arch::naked_asm!(
            concat!("mov ", $stack, ", rsp"),
            concat!("mov ", $frame, ", rbp"),
            "jmp {to}",
            to = sym $with_frame,
        )
    };
}

/// The same on aarch64.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[doc(hidden)]
#[macro_export]
macro_rules! jump_with_frame {
    ($with_frame:path, $one:ident) => {
        $crate::jump_with_frame!(@ $with_frame, "x1", "x2")
    };
    ($with_frame:path, $one:ident, $two:ident) => {
        $crate::jump_with_frame!(@ $with_frame, "x2", "x3")
    };
    ($with_frame:path, $one:ident, $two:ident, $three:ident) => {
        $crate::jump_with_frame!(@ $with_frame, "x3", "x4")
    };
    (@ $with_frame:path, $stack:literal, $frame:literal) => {
        ::core::arch::naked_asm!(
            ".cfi_startproc",
            concat!("mov ", $frame, ", x29"),
            "stp x29, x30, [sp, #-16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            "mov x29, sp",
            concat!("add ", $stack, ", sp, #8"),
            "bl {to}",
            "ldp x29, x30, [sp], #16",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "ret",
            ".cfi_endproc",
            to = sym $with_frame,
        )
    };
}

/// The same where it is not naked.
#[cfg(not(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri))))]
#[doc(hidden)]
#[macro_export]
macro_rules! jump_with_frame {
    ($with_frame:path, $($arg:ident),+) => {{
        #[allow(unused_unsafe, reason = "some of these functions are safe")]
        // SAFETY: the same contract.
        unsafe {
            $with_frame($($arg),+, $crate::internal::Frame::NONE)
        }
    }};
}
