//! The C++ symbols: every form of `operator new` and `operator delete`, under their mangled names.
//!
//! When memory is short the throwing forms hand over to the C++ runtime's own operator, which
//! calls the program's new-handler and throws `std::bad_alloc`; the `nothrow` forms do the same
//! through its `nothrow` operator, which catches and returns null. Sizes that `delete` passes are
//! not relied upon: a program that is wrong about one would corrupt the heap.

use core::ffi::{CStr, c_void};

use sheaves_heap as heap;
use sheaves_sys::{process, report};

/// The runtime's own operator of this name, for the case that memory is short.
#[cold]
fn next(name: &CStr) -> *mut c_void {
    let operator = process::next_symbol(name);
    if operator.is_null() {
        report::die(format_args!("out of memory in operator new, and no C++ runtime to tell"));
    }
    operator
}

/// Defines forms of `operator new`: name, parameters, the block or null.
macro_rules! operators_new {
    ($($(#[$doc:meta])* $symbol:ident($($arg:ident: $type:ty),*) = $alloc:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "mangled by the C++ compiler")]
        pub extern "C-unwind" fn $symbol($($arg: $type),*) -> *mut c_void {
            let block: *mut u8 = $alloc;
            if !block.is_null() {
                return block.cast();
            }
            let name = concat!(stringify!($symbol), "\0").as_bytes();
            let own = next(CStr::from_bytes_with_nul(name).unwrap_or_default());
            type Operator = extern "C-unwind" fn($($type),*) -> *mut c_void;
            // SAFETY: a symbol of this name is an operator of this type.
            let own = unsafe { core::mem::transmute::<*mut c_void, Operator>(own) };
            own($($arg),*)
        }
    )*};
}

operators_new! {
    /// `operator new(size_t)`.
    _Znwm(size: usize) = heap::malloc(size);
    /// `operator new[](size_t)`.
    _Znam(size: usize) = heap::malloc(size);
    /// `operator new(size_t, nothrow)`.
    _ZnwmRKSt9nothrow_t(size: usize, _tag: *const c_void) = heap::malloc(size);
    /// `operator new[](size_t, nothrow)`.
    _ZnamRKSt9nothrow_t(size: usize, _tag: *const c_void) = heap::malloc(size);
    /// `operator new(size_t, align_val_t)`.
    _ZnwmSt11align_val_t(size: usize, align: usize) = heap::aligned_alloc(align, size);
    /// `operator new[](size_t, align_val_t)`.
    _ZnamSt11align_val_t(size: usize, align: usize) = heap::aligned_alloc(align, size);
    /// `operator new(size_t, align_val_t, nothrow)`.
    _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _tag: *const c_void) =
        heap::aligned_alloc(align, size);
    /// `operator new[](size_t, align_val_t, nothrow)`.
    _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _tag: *const c_void) =
        heap::aligned_alloc(align, size);
}

/// Defines forms of `operator delete`: name and the parameters after the block.
macro_rules! operators_delete {
    ($($(#[$doc:meta])* $symbol:ident($($arg:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`heap::free`].
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "mangled by the C++ compiler")]
        pub unsafe extern "C" fn $symbol(block: *mut c_void $(, $arg: $type)*) {
            // SAFETY: the caller's contract.
            unsafe { heap::free(block.cast()) }
        }
    )*};
}

operators_delete! {
    /// `operator delete(void*)`.
    _ZdlPv();
    /// `operator delete[](void*)`.
    _ZdaPv();
    /// `operator delete(void*, size_t)`.
    _ZdlPvm(_size: usize);
    /// `operator delete[](void*, size_t)`.
    _ZdaPvm(_size: usize);
    /// `operator delete(void*, nothrow)`.
    _ZdlPvRKSt9nothrow_t(_tag: *const c_void);
    /// `operator delete[](void*, nothrow)`.
    _ZdaPvRKSt9nothrow_t(_tag: *const c_void);
    /// `operator delete(void*, align_val_t)`.
    _ZdlPvSt11align_val_t(_align: usize);
    /// `operator delete[](void*, align_val_t)`.
    _ZdaPvSt11align_val_t(_align: usize);
    /// `operator delete(void*, size_t, align_val_t)`.
    _ZdlPvmSt11align_val_t(_size: usize, _align: usize);
    /// `operator delete[](void*, size_t, align_val_t)`.
    _ZdaPvmSt11align_val_t(_size: usize, _align: usize);
    /// `operator delete(void*, align_val_t, nothrow)`.
    _ZdlPvSt11align_val_tRKSt9nothrow_t(_align: usize, _tag: *const c_void);
    /// `operator delete[](void*, align_val_t, nothrow)`.
    _ZdaPvSt11align_val_tRKSt9nothrow_t(_align: usize, _tag: *const c_void);
}
