//! The calling thread's stack by the tables of `.eh_frame`, which libgcc reads: for programs
//! without frame pointers.
//!
//! From glibc 2.35 and gcc 12 on libgcc finds the tables of an object without a lock, and allocates
//! for nothing but functions that a program has registered itself, as some compilers at run time
//! do. So [`find`] takes no older one. Where libgcc allocates, it may hold a lock that a walk
//! needs: no stack is walked whose innermost function is one of libgcc's. So a walk does not
//! recurse, either. With functions that a program has registered, libgcc may wait for a thread that
//! registers one, for ever in the child of a fork.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::function::{self, FnCell};
use crate::reports::symbol;
use crate::{errno, object, sandbox, tls};

type Context = *mut c_void;
type Step = unsafe extern "C" fn(Context, *mut c_void) -> c_int;
type Backtrace = unsafe extern "C" fn(Step, *mut c_void) -> c_int;
type Get = unsafe extern "C" fn(Context) -> usize;
type Open = unsafe extern "C" fn(*const core::ffi::c_char, c_int) -> *mut c_void;

/// `_URC_NO_REASON`, `_URC_NORMAL_STOP` and `_URC_END_OF_STACK`.
const CONTINUE: c_int = 0;
const STOP: c_int = 4;
const END_OF_STACK: c_int = 5;

/// Why stacks of code without frame pointers are short, or that they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Unwinder {
    /// Nothing has asked for it yet, or it cannot be loaded now.
    NotFound = 0,
    /// They are whole.
    Found = 1,
    /// glibc is older than 2.35, or the C library is another one.
    OldGlibc = 2,
    /// `libgcc_s.so.1` cannot be loaded.
    NoLibgcc = 3,
    /// libgcc is older than that of gcc 12, or was built for an older glibc.
    OldLibgcc = 4,
}

static STATE: AtomicU8 = AtomicU8::new(Unwinder::NotFound as u8);
/// The first three are there once the state is [`Unwinder::Found`].
static BACKTRACE: FnCell<Backtrace> = FnCell::new();
static GET_IP: FnCell<Get> = FnCell::new();
static GET_CFA: FnCell<Get> = FnCell::new();
static START: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// What [`find`] has found.
pub fn state() -> Unwinder {
    use Unwinder::{Found, NoLibgcc, NotFound, OldGlibc, OldLibgcc};
    // Acquire pairs with the Release in `find`: the range of libgcc. [U1]
    let state = STATE.load(Ordering::Acquire);
    let all = [NotFound, Found, OldGlibc, NoLibgcc, OldLibgcc];
    all.into_iter().find(|one| *one as u8 == state).unwrap_or(NotFound)
}

/// Loads libgcc, unless that was tried before. The loader may allocate and take locks: not in a
/// slow path of `malloc`, nor under a lock.
pub fn find() {
    if state() == Unwinder::NotFound && !sandbox::is_entered() {
        let state = errno::preserve(load);
        // Release pairs with the Acquire in `state`. [U1]
        STATE.store(state as u8, Ordering::Release);
    }
}

fn load() -> Unwinder {
    // By its name: a static program would get `dlopen`, and a warning of the linker.
    // SAFETY: null, or libc's function or the preload object's, which have this type.
    let open = unsafe { function::at::<Open>(object::symbol(c"dlopen")) };
    let Some(open) = open.filter(|_| !tls::dl_find_object().is_null()) else {
        return Unwinder::OldGlibc;
    };
    let flags = libc::RTLD_NOW | libc::RTLD_NODELETE;
    // SAFETY: a C string; libgcc's constructors only look at the processor.
    let libgcc = unsafe { open(c"libgcc_s.so.1".as_ptr(), flags) };
    if libgcc.is_null() {
        // Otherwise the program's next call of it would return this failure.
        // SAFETY: no precondition.
        let _ = unsafe { libc::dlerror() };
        return Unwinder::NoLibgcc;
    }
    // SAFETY: an open handle, and a C string.
    let named = |name: &CStr| unsafe { libc::dlsym(libgcc, name.as_ptr()) }.cast_const();
    let (backtrace, ip) = (named(c"_Unwind_Backtrace"), named(c"_Unwind_GetIP"));
    let (cfa, range) = (named(c"_Unwind_GetCFA"), symbol::object_range(backtrace.addr()));
    if !symbol::imports(backtrace.addr(), b"_dl_find_object") {
        return Unwinder::OldLibgcc;
    }
    // SAFETY: null, or the function, which has this type in `unwind.h`.
    BACKTRACE.set(unsafe { function::at(backtrace) });
    // SAFETY: as above.
    GET_IP.set(unsafe { function::at(ip) });
    // SAFETY: as above.
    GET_CFA.set(unsafe { function::at(cfa) });
    // Relaxed, both: published by the Release in `find`. [U1]
    START.store(range.start, Ordering::Relaxed);
    BYTES.store(range.len(), Ordering::Relaxed);
    // The first walk prepares the numbers of registers, which may take a lock.
    let _whole = walk_from(usize::MAX, &mut []);
    Unwinder::Found
}

/// A walk: the return addresses from the function on whose caller has this stack pointer.
struct Walk<'a> {
    caller_stack: usize,
    has_begun: bool,
    out: &'a mut [usize],
    count: usize,
}

unsafe extern "C" fn step(context: Context, walk: *mut c_void) -> c_int {
    let (Some(ip), Some(cfa)) = (GET_IP.get(), GET_CFA.get()) else { return STOP };
    // SAFETY: the walk that `walk_from` has passed, which nothing else refers to meanwhile.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    // SAFETY: the context of this step.
    walk.has_begun |= unsafe { cfa(context) } == walk.caller_stack;
    if walk.has_begun {
        let Some(place) = walk.out.get_mut(walk.count) else { return STOP };
        // SAFETY: as above.
        *place = unsafe { ip(context) };
        // The outermost function of some threads returns to address 0.
        walk.count += usize::from(*place != 0);
    }
    CONTINUE
}

/// Stores return addresses; their number, and whether the walk has come to the end of the stack.
fn walk_from(caller_stack: usize, out: &mut [usize]) -> (usize, bool) {
    let Some(backtrace) = BACKTRACE.get() else { return (0, false) };
    let mut walk = Walk { caller_stack, has_begun: false, out, count: 0 };
    // SAFETY: `step` may be called with this walk.
    let status = unsafe { backtrace(step, (&raw mut walk).cast()) };
    (walk.count, status == END_OF_STACK)
}

/// Stores the return addresses of a function and its callers, as [`super::stack::walk`] does, whose
/// own return address `first` is at `stack`. Their number, 0 if they are not known, and whether the
/// outermost one is among them.
pub(super) fn walk(stack: usize, first: usize, out: &mut [usize]) -> (usize, bool) {
    if state() != Unwinder::Found {
        return (0, false);
    }
    // Relaxed, both: see `state`. [U1]
    let (start, bytes) = (START.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    if first.wrapping_sub(start) < bytes { (0, false) } else { walk_from(stack + 8, out) }
}
