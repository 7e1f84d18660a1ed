//! The shared object that takes over malloc under `LD_PRELOAD`.
//!
//! Every symbol of the malloc family, C and C++, is defined here, so that this heap never receives
//! a block of libc's. `dlopen` is defined, too, so that modules share this heap, and `prctl` and
//! `syscall`, to notice a sandbox. Start
//! reading at [`c`]; `sheaves run` sets the preload up. Options are in `docs/options.md`.
//!
//! The object is linked with `-z nodelete`: it stays loaded until the process ends.
#![no_std]
// Where panics unwind, in tests, the standard library is linked for its panic handler only; none of
// its functions is called.
#[cfg(panic = "unwind")]
extern crate std as _;

/// Defines exported functions: name, parameters, result, and the call that it is made of.
macro_rules! exports {
    ($abi:literal $($(#[$doc:meta])*
        $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $call:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Pointers are as the function of that name requires.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe, reason = "names of C++; some calls are safe")]
        pub unsafe extern $abi fn $name($($arg: $type),*) $(-> $result)? {
            // SAFETY: the caller's contract.
            unsafe { $call }
        }
    )*};
}

// Answers tools: it is there once it is linked.
use sheaves_control as _;

pub mod atfork;
pub mod c;
pub mod cxx;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod dl;
pub mod info;
mod life;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod sandbox;
#[cfg(panic = "abort")]
mod standalone;
