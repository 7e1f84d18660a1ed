//! The C++ symbols: every form of `operator new` and `operator delete`, under their mangled names.
//!
//! A program may replace some of them. The other forms then have to call the program's, as the C++
//! standard says of the library's definitions. Each form calls another:
//!
//! | form | calls |
//! |---|---|
//! | `new`, `delete`, plain or aligned | this heap |
//! | `new[]`, `delete[]`, plain or aligned | `new`, `delete` |
//! | `delete` with a size or with `nothrow` | the form without |
//! | `new` with `nothrow` | this heap; the C++ runtime's where the program replaces a `new` |
//!
//! Only the runtime's `nothrow` form can catch what the program's `new` throws.
//!
//! These calls go through `Bound`: the address that the loader has bound the name to, of the
//! program's definition, if it has one, and of ours otherwise.
//!
//! When memory is out, each form calls the C++ runtime's operator of its name: the throwing ones
//! call the program's new-handler and throw `std::bad_alloc`, the `nothrow` ones return null. The
//! runtime may be the program's, or one that came with a module which the program has loaded.
//!
//! The sizes and alignments that `delete` receives are checked in a hardened process, if the
//! program replaces no operator, and not used otherwise.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use sheaves_heap as heap;
use sheaves_sys::{function, object, report};

/// An operator as the loader has bound its name for all objects; `replaceable.list` has the names.
#[repr(transparent)]
struct Bound<F>(F);

impl<F: Copy> Bound<F> {
    /// The operator: the program's, or the one in this object.
    #[inline(always)]
    fn operator(&self) -> F {
        // Volatile: otherwise the compiler would use the one in this object.
        // SAFETY: a valid static that is never written.
        unsafe { core::ptr::read_volatile(&raw const self.0) }
    }
}

type New = unsafe extern "C-unwind" fn(usize) -> *mut c_void;
type NewAligned = unsafe extern "C-unwind" fn(usize, usize) -> *mut c_void;
type Delete = unsafe extern "C-unwind" fn(*mut c_void);
type DeleteAligned = unsafe extern "C-unwind" fn(*mut c_void, usize);

static NEW: Bound<New> = Bound(_Znwm);
static NEW_ARRAY: Bound<New> = Bound(_Znam);
static NEW_ALIGNED: Bound<NewAligned> = Bound(_ZnwmSt11align_val_t);
static NEW_ARRAY_ALIGNED: Bound<NewAligned> = Bound(_ZnamSt11align_val_t);
static DELETE: Bound<Delete> = Bound(_ZdlPv);
static DELETE_ARRAY: Bound<Delete> = Bound(_ZdaPv);
static DELETE_ALIGNED: Bound<DeleteAligned> = Bound(_ZdlPvSt11align_val_t);
static DELETE_ARRAY_ALIGNED: Bound<DeleteAligned> = Bound(_ZdaPvSt11align_val_t);

/// What `delete` and `delete[]` with a size call: the form without, or one that checks the size.
#[unsafe(link_section = ".sheaves_load")]
static DELETE_SIZED: [AtomicPtr<c_void>; 2] =
    [AtomicPtr::new(_ZdlPv as *mut c_void), AtomicPtr::new(_ZdaPv as *mut c_void)];

/// Set where sizes and alignments are checked.
static IS_CHECKED: AtomicBool = AtomicBool::new(false);

type DeleteSized = unsafe extern "C-unwind" fn(*mut c_void, usize);

/// The operator that `delete` with a size calls, or `delete[]`. One without a size ignores the
/// second argument.
#[inline(always)]
fn delete_sized(is_array: bool) -> DeleteSized {
    // Relaxed: changes when the object is loaded only.
    let operator = DELETE_SIZED[usize::from(is_array)].load(Ordering::Relaxed);
    // SAFETY: an operator of this type, or one that takes the first argument.
    unsafe { core::mem::transmute::<*mut c_void, DeleteSized>(operator) }
}

/// Switches on the checks of sizes and alignments in `delete`, unless the program has an operator
/// of its own. Called when the object is loaded.
pub(crate) fn check_sizes() {
    let deletes = [c"_ZdlPv", c"_ZdaPv", c"_ZdlPvSt11align_val_t", c"_ZdaPvSt11align_val_t"];
    if are_ours(&deletes) && !is_new_replaced() {
        // Relaxed, all: as above.
        for operator in &DELETE_SIZED {
            operator.store(delete_checked as *mut c_void, Ordering::Relaxed);
        }
        IS_CHECKED.store(true, Ordering::Relaxed);
    }
}

unsafe extern "C-unwind" fn delete_checked(block: *mut c_void, size: usize) {
    heap::slow::check_size(block.cast(), size, 0, false);
    // SAFETY: the caller's contract.
    unsafe { heap::free(block.cast()) };
}

/// Checks the arguments of `delete` with a size and an alignment.
fn check(block: *mut c_void, size: usize, align: usize) {
    // Relaxed: as above.
    if IS_CHECKED.load(Ordering::Relaxed) {
        heap::slow::check_size(block.cast(), size, align, false);
    }
}

/// True if all operators are those of this object, or stubs of the program, which jump to them.
fn are_ours(operators: &[&CStr]) -> bool {
    operators.iter().all(|name| object::foreign_symbol(name).is_none())
}

/// True when the program has replaced a `new` that the `nothrow` forms call. First called when the
/// object is loaded: it may take the loader's lock, whose holder may later wait for a thread that
/// allocates. So what a `nothrow` form then needs is looked up there, too.
#[inline]
pub(crate) fn is_new_replaced() -> bool {
    // Relaxed: constant for the process.
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => is_new_replaced_slow(),
        answer => answer == YES,
    }
}

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;
#[unsafe(link_section = ".sheaves_load")]
static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);

#[cold]
fn is_new_replaced_slow() -> bool {
    let bound = [
        NEW.operator() as usize,
        NEW_ARRAY.operator() as usize,
        NEW_ALIGNED.operator() as usize,
        NEW_ARRAY_ALIGNED.operator() as usize,
    ];
    let operators = [c"_Znwm", c"_Znam", c"_ZnwmSt11align_val_t", c"_ZnamSt11align_val_t"];
    let is_replaced = !object::has_all(&bound) && !are_ours(&operators);
    if is_replaced {
        for (name, runtime) in &NOTHROW {
            // Relaxed: code, which is there before any thread.
            runtime.store(look_up(name), Ordering::Relaxed);
        }
    }
    // Relaxed: as above.
    ANSWER.store(if is_replaced { YES } else { NO }, Ordering::Relaxed);
    is_replaced
}

/// The result of `alloc`, or null where the program has replaced a `new`: then the C++ runtime's
/// `nothrow` form has to run.
fn unless_replaced(alloc: impl FnOnce() -> *mut u8) -> *mut u8 {
    if is_new_replaced() { null_mut() } else { alloc() }
}

/// Where a program that does not link the C++ runtime may have it from a module.
const RUNTIMES: [&CStr; 3] = [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"];

/// The runtime's `nothrow` forms in a program that replaces a `new`: it has loaded the runtime, for
/// good. Null in others.
#[unsafe(link_section = ".sheaves_load")]
static NOTHROW: [(&CStr, AtomicPtr<c_void>); 4] = [
    (c"_ZnwmRKSt9nothrow_t", AtomicPtr::new(null_mut())),
    (c"_ZnamRKSt9nothrow_t", AtomicPtr::new(null_mut())),
    (c"_ZnwmSt11align_val_tRKSt9nothrow_t", AtomicPtr::new(null_mut())),
    (c"_ZnamSt11align_val_tRKSt9nothrow_t", AtomicPtr::new(null_mut())),
];

/// The runtime's operator, wherever it is loaded; null where it is not.
fn look_up(name: &CStr) -> *mut c_void {
    let next = object::next_symbol(name);
    if next.is_null() { object::symbol_of_loaded(&RUNTIMES, name) } else { next }
}

/// The runtime's own operator of this name. `None` where there is no runtime, and the operator may
/// return null.
///
/// # Safety
/// The operator may be called by the function pointer `F`.
#[cold]
unsafe fn next<F: Copy>(name: &CStr) -> Option<F> {
    let known = NOTHROW.iter().find(|(known, _)| *known == name);
    // Relaxed: as above.
    let known = known.map_or(null_mut(), |(_, runtime)| runtime.load(Ordering::Relaxed));
    let found = if known.is_null() { look_up(name) } else { known };
    // SAFETY: the same contract.
    let operator = unsafe { function::at(found) };
    if operator.is_none() && (is_new_replaced() || !name.to_bytes().ends_with(b"nothrow_t")) {
        report::die(format_args!(
            "operator new cannot call the C++ runtime, which is not loaded (memory is out, or the \
             program has an operator new of its own)"
        ))
    }
    operator
}

/// The block, if it is not null, or what the C++ runtime's operator returns or throws.
macro_rules! block_or_own {
    ($block:expr, $symbol:ident($size:ident: usize $(, $arg:ident: $type:ty)*)) => {{
        let block: *mut u8 = $block;
        if !block.is_null() {
            return block.cast();
        }
        let name = concat!(stringify!($symbol), "\0").as_bytes();
        type Operator = extern "C-unwind" fn(usize $(, $type)*) -> *mut c_void;
        // SAFETY: a symbol of this name is an operator of this type.
        let own = unsafe { next::<Operator>(CStr::from_bytes_with_nul(name).unwrap_or_default()) };
        // That of libstdc++ rounds sizes up to the alignment: the largest ones to 0.
        let size = $size.min(isize::MAX as usize);
        own.map_or(core::ptr::null_mut(), |own| own(size $(, $arg)*))
    }};
}

/// Defines forms of `operator new`: name, parameters, and the block. If the block is null, the C++
/// runtime's operator is called.
macro_rules! operators_new {
    ($($(#[$doc:meta])* $symbol:ident($size:ident: usize $(, $arg:ident: $type:ty)*) =
        $alloc:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "mangled by the C++ compiler")]
        pub extern "C-unwind" fn $symbol($size: usize $(, $arg: $type)*) -> *mut c_void {
            block_or_own!($alloc, $symbol($size: usize $(, $arg: $type)*))
        }
    )*};
}

/// The forms that know their callers, for profiles of the heap: the two that the others call, and
/// those that do nothing but call them.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod first {
    use core::ffi::{CStr, c_void};

    use sheaves_heap as heap;
    use sheaves_heap::entry::{jump_through, jump_with_frame, pop_by_size};
    use sheaves_sys::stack::Frame;

    use super::next;

    /// `operator new(size_t)`: the body of `malloc`, with a slow path that may throw.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C-unwind" fn _Znwm(size: usize) -> *mut c_void {
        pop_by_size!(table = heap::classes::WORDS, slow = new_slow)
    }

    #[unsafe(naked)]
    extern "C-unwind" fn new_slow(size: usize) -> *mut c_void {
        jump_with_frame!(new_from, size)
    }

    extern "C-unwind" fn new_from(size: usize, frame: Frame) -> *mut c_void {
        block_or_own!(heap::slow::malloc_from(size, frame), _Znwm(size: usize))
    }

    /// `operator new[](size_t)`.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C-unwind" fn _Znam(size: usize) -> *mut c_void {
        jump_through!(super::NEW)
    }

    /// `operator new[](size_t, align_val_t)`.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C-unwind" fn _ZnamSt11align_val_t(size: usize, align: usize) -> *mut c_void {
        jump_through!(super::NEW_ALIGNED)
    }

    /// `operator new(size_t, align_val_t)`.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C-unwind" fn _ZnwmSt11align_val_t(size: usize, align: usize) -> *mut c_void {
        jump_with_frame!(new_aligned_from, size, align)
    }

    extern "C-unwind" fn new_aligned_from(size: usize, align: usize, frame: Frame) -> *mut c_void {
        block_or_own!(
            heap::aligned_alloc_from(align, size, frame),
            _ZnwmSt11align_val_t(size: usize, align: usize)
        )
    }
}
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub use first::{_Znam, _ZnamSt11align_val_t, _Znwm, _ZnwmSt11align_val_t};

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
operators_new! {
    /// `operator new(size_t)`.
    _Znwm(size: usize) = heap::malloc(size);
    /// `operator new(size_t, align_val_t)`.
    _ZnwmSt11align_val_t(size: usize, align: usize) = heap::aligned_alloc(align, size);
}

operators_new! {
    /// `operator new(size_t, nothrow)`.
    _ZnwmRKSt9nothrow_t(size: usize, _tag: *const c_void) =
        unless_replaced(|| heap::malloc(size));
    /// `operator new[](size_t, nothrow)`.
    _ZnamRKSt9nothrow_t(size: usize, _tag: *const c_void) =
        unless_replaced(|| heap::malloc(size));
    /// `operator new(size_t, align_val_t, nothrow)`.
    _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _tag: *const c_void) =
        unless_replaced(|| heap::aligned_alloc(align, size));
    /// `operator new[](size_t, align_val_t, nothrow)`.
    _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _tag: *const c_void) =
        unless_replaced(|| heap::aligned_alloc(align, size));
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
exports! { "C-unwind"
    /// `operator new[](size_t)`.
    _Znam(size: usize) -> *mut c_void = NEW.operator()(size);
    /// `operator new[](size_t, align_val_t)`.
    _ZnamSt11align_val_t(size: usize, align: usize) -> *mut c_void =
        NEW_ALIGNED.operator()(size, align);
}

exports! { "C-unwind"
    /// `operator delete(void*)`.
    _ZdlPv(block: *mut c_void) = heap::free(block.cast());
    /// `operator delete(void*, align_val_t)`.
    _ZdlPvSt11align_val_t(block: *mut c_void, align: usize) = {
        heap::slow::check_align(block.cast(), align);
        heap::free(block.cast());
    };
    /// `operator delete[](void*)`.
    _ZdaPv(block: *mut c_void) = DELETE.operator()(block);
    /// `operator delete(void*, size_t)`.
    _ZdlPvm(block: *mut c_void, size: usize) = delete_sized(false)(block, size);
    /// `operator delete[](void*, size_t)`.
    _ZdaPvm(block: *mut c_void, size: usize) = delete_sized(true)(block, size);
    /// `operator delete(void*, nothrow)`.
    _ZdlPvRKSt9nothrow_t(block: *mut c_void, _tag: *const c_void) = DELETE.operator()(block);
    /// `operator delete[](void*, nothrow)`.
    _ZdaPvRKSt9nothrow_t(block: *mut c_void, _tag: *const c_void) = DELETE_ARRAY.operator()(block);
    /// `operator delete[](void*, align_val_t)`.
    _ZdaPvSt11align_val_t(block: *mut c_void, align: usize) =
        DELETE_ALIGNED.operator()(block, align);
    /// `operator delete(void*, size_t, align_val_t)`.
    _ZdlPvmSt11align_val_t(block: *mut c_void, size: usize, align: usize) = {
        check(block, size, align);
        DELETE_ALIGNED.operator()(block, align);
    };
    /// `operator delete[](void*, size_t, align_val_t)`.
    _ZdaPvmSt11align_val_t(block: *mut c_void, size: usize, align: usize) = {
        check(block, size, align);
        DELETE_ARRAY_ALIGNED.operator()(block, align);
    };
    /// `operator delete(void*, align_val_t, nothrow)`.
    _ZdlPvSt11align_val_tRKSt9nothrow_t(block: *mut c_void, align: usize, _tag: *const c_void) =
        DELETE_ALIGNED.operator()(block, align);
    /// `operator delete[](void*, align_val_t, nothrow)`.
    _ZdaPvSt11align_val_tRKSt9nothrow_t(block: *mut c_void, align: usize, _tag: *const c_void) =
        DELETE_ARRAY_ALIGNED.operator()(block, align);
}
