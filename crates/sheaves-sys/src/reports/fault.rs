//! Accesses to inaccessible memory: a handler of SIGSEGV that explains some of them.
//!
//! Installed on request only. It tells a function of the layers above the access, and passes the
//! signal on to the action that was there before; if that is the default one, the process ends.
//!
//! A program may install its own handler later: Go, the JVM and node do. [`put_handler_first`],
//! which the library's thread calls, then puts this one before it. Signals that such a handler
//! passes on to this one, which it has replaced, go on to what was before both.
//!
//! The handler uses the alternate stack of the thread, if it has one, and less than 4 KiB of it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null, with_exposed_provenance};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::function::{self, FnCell};
use crate::lock::Lock;
use crate::{errno, sandbox};

/// An access that has failed.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// The address.
    pub address: usize,
    /// True for a write; `None` where the processor does not tell.
    pub is_write: Option<bool>,
    /// The instruction.
    pub counter: usize,
    /// The stack pointer of the interrupted code.
    pub stack: usize,
    /// Its frame pointer, if it keeps one.
    pub frame: usize,
}

/// Explains an access, in a signal handler.
pub type Explain = fn(&Access);

static EXPLAIN: FnCell<Explain> = FnCell::new();

/// The first action that was found, and the last one: the handler, with [`RESETS`].
static FIRST: AtomicUsize = AtomicUsize::new(NONE);
static LAST: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = usize::MAX;
/// In an action: it is for one signal (`SA_RESETHAND`).
const RESETS: usize = 1 << 63;
/// One thread changes the action at a time. Not for forks: a child takes it over.
static CHANGING: Lock<()> = Lock::new(());

/// The call of an action that the handler makes, while it lasts: the signal's information and the
/// handler's frame. 0 otherwise.
static PASSED_ON: AtomicUsize = AtomicUsize::new(0);
static PASSED_FROM: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler, or another function. False where the kernel refuses, and in a sandbox.
pub fn install(explain: Explain) -> bool {
    EXPLAIN.set(Some(explain));
    put_handler_first()
}

/// Puts the handler before one that the program has installed meanwhile. Costs a system call. False
/// where the kernel refuses, and in a sandbox. Nothing before [`install`].
pub fn put_handler_first() -> bool {
    if EXPLAIN.get().is_none() {
        return true;
    }
    if sandbox::is_entered() {
        return false;
    }
    // Otherwise another thread does it.
    let Some(_changing) = CHANGING.try_lock() else { return true };
    errno::preserve(|| {
        let mut current = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: valid for the call to fill; no action is changed.
        if unsafe { libc::sigaction(libc::SIGSEGV, null(), current.as_mut_ptr()) } != 0 {
            return false;
        }
        // SAFETY: filled.
        let current = unsafe { current.assume_init() };
        current.sa_sigaction == handler_address() || put_before(current)
    })
}

fn put_before(current: libc::sigaction) -> bool {
    let resets = if current.sa_flags & libc::SA_RESETHAND != 0 { RESETS } else { 0 };
    let found = current.sa_sigaction | resets;
    // Relaxed, all: numbers; under the lock.
    if FIRST.load(Ordering::Relaxed) == NONE {
        FIRST.store(found, Ordering::Relaxed);
    }
    LAST.store(found, Ordering::Relaxed);
    let mut ours = current;
    ours.sa_sigaction = handler_address();
    ours.sa_flags &= libc::SA_NODEFER | libc::SA_RESTART;
    ours.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is a function of this object, which is never unloaded.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const ours, core::ptr::null_mut()) == 0 }
}

fn handler_address() -> usize {
    handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let here = 0_usize;
    let frame = (&raw const here).addr();
    errno::preserve(|| {
        // Relaxed, here and below: numbers. A handler that has jumped out of its call leaves these;
        // a later signal has other information, or is handled no deeper in the stack.
        let is_nested = PASSED_ON.load(Ordering::Relaxed) == info.addr()
            && frame < PASSED_FROM.load(Ordering::Relaxed);
        // SAFETY: the kernel's, valid until the handler returns.
        let is_fault = unsafe { (*info).si_code } > 0;
        if let Some(explain) = EXPLAIN.get()
            && is_fault
            && !is_nested
        {
            // SAFETY: the kernel's arguments of this handler.
            explain(&unsafe { access_of(info, context) });
        }
        let action = if is_nested { &FIRST } else { &LAST }.load(Ordering::Relaxed);
        if !is_nested {
            PASSED_FROM.store(frame, Ordering::Relaxed);
            PASSED_ON.store(info.addr(), Ordering::Relaxed);
        }
        // SAFETY: the kernel's arguments of this handler.
        unsafe { pass_on(action, signal, info, context) };
        if !is_nested {
            PASSED_ON.store(0, Ordering::Relaxed);
        }
    });
}

/// Does what an action says.
///
/// # Safety
/// The arguments are those of a signal handler that is running.
unsafe fn pass_on(action: usize, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    type WithInfo = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    let handler = action & !RESETS;
    // SAFETY: the kernel's.
    let is_fault = unsafe { (*info).si_code } > 0;
    match handler {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the default action; no function is installed.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                // A sandbox refuses it. The fault would happen again and again.
                // SAFETY: abort has no precondition.
                unsafe { libc::abort() };
            }
            if !is_fault {
                // Delivered when this handler returns. A fault happens again by itself.
                // SAFETY: raise has no precondition.
                unsafe { libc::raise(signal) };
            }
        }
        _ => {
            for place in [&FIRST, &LAST].into_iter().filter(|_| action & RESETS != 0) {
                // Relaxed, both: for the next signal.
                let order = Ordering::Relaxed;
                let _ = place.compare_exchange(action, libc::SIG_DFL, order, order);
            }
            let handler = with_exposed_provenance(handler);
            // SAFETY: the program has installed it as a handler; with `SA_SIGINFO` it has three
            // parameters, and otherwise it ignores the second and the third one.
            if let Some(handler) = unsafe { function::at::<WithInfo>(handler) } {
                handler(signal, info, context);
            }
        }
    }
}

/// # Safety
/// The arguments are those of a signal handler that is running.
unsafe fn access_of(info: *mut libc::siginfo_t, context: *mut c_void) -> Access {
    // SAFETY: the kernel's.
    let info = unsafe { &*info };
    // SAFETY: SIGSEGV with a positive code has an address.
    let address = unsafe { info.si_addr() }.addr();
    // SAFETY: the kernel's.
    let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        let register = |index: c_int| machine.gregs[index as usize] as usize;
        Access {
            address,
            is_write: Some(register(libc::REG_ERR) & 2 != 0),
            counter: register(libc::REG_RIP),
            stack: register(libc::REG_RSP),
            frame: register(libc::REG_RBP),
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let (counter, stack) = (machine.pc as usize, machine.sp as usize);
        Access { address, is_write: None, counter, stack, frame: machine.regs[29] as usize }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = machine;
        Access { address, is_write: None, counter: 0, stack: 0, frame: 0 }
    }
}
