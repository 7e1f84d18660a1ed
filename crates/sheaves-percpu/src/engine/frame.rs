//! Entries of slow paths that take their caller's frame along, for samples of allocations.
//!
//! Only a naked function still finds the registers as its caller left them. On other architectures
//! the frame is unknown.

/// Defines functions of up to three arguments that call another one with their arguments and their
/// caller's `Frame`, as the numbers `stack` and `frame`: see `sheaves_sys::stack`. In brackets is
/// `unsafe`, or nothing.
#[macro_export]
macro_rules! with_frame {
    ($(
        $(#[$attribute:meta])*
        $vis:vis [$($qualifier:tt)*] fn $name:ident($($arg:ident: $type:ty),+) -> $result:ty =
            $with_frame:path;
    )*) => {$(
        $(#[$attribute])*
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        $vis $($qualifier)* extern "C" fn $name($($arg: $type),+) -> $result {
            $crate::jump_with_frame!($with_frame, $($arg),+)
        }

        $(#[$attribute])*
        #[cfg(not(target_arch = "x86_64"))]
        $vis $($qualifier)* extern "C" fn $name($($arg: $type),+) -> $result {
            #[allow(unused_unsafe, reason = "some of these functions are safe")]
            // SAFETY: the same contract.
            unsafe {
                $with_frame($($arg),+, 0, 0)
            }
        }
    )*};
}

/// The body of a naked function that is another one, whose address is in a static.
#[macro_export]
macro_rules! jump_through {
    ($address:path) => {
        ::core::arch::naked_asm!("jmp qword ptr [rip + {address}]", address = sym $address)
    };
}

/// The body of such a function.
#[doc(hidden)]
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! jump_with_frame {
    ($with_frame:path, $one:ident) => {
        ::core::arch::naked_asm!(
            "mov rsi, rsp",
            "mov rdx, rbp",
            "jmp {to}",
            to = sym $with_frame,
        )
    };
    ($with_frame:path, $one:ident, $two:ident) => {
        ::core::arch::naked_asm!(
            "mov rdx, rsp",
            "mov rcx, rbp",
            "jmp {to}",
            to = sym $with_frame,
        )
    };
    ($with_frame:path, $one:ident, $two:ident, $three:ident) => {
        ::core::arch::naked_asm!(
            "mov rcx, rsp",
            "mov r8, rbp",
            "jmp {to}",
            to = sym $with_frame,
        )
    };
}

/// The body of such a function, which is not naked here.
#[doc(hidden)]
#[cfg(not(target_arch = "x86_64"))]
#[macro_export]
macro_rules! jump_with_frame {
    ($with_frame:path, $($arg:ident),+) => {
        // SAFETY: the same contract.
        unsafe { $with_frame($($arg),+, 0, 0) }
    };
}
