//! Interrupts a thread after a given number of instructions: the CPU's trap flag raises SIGTRAP
//! after each instruction.
//!
//! The kernel clears the flag while the handler runs and sets it again when it returns. Where the
//! code blocks all signals, a handler has to wait, and does so here, too. But SIGTRAP stays out of
//! the mask, since a SIGTRAP that is raised while blocked kills the process.

use core::arch::asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The trap flag.
const TRAP: u64 = 1 << 8;
/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0F, 0x05];
/// A set of signals within this distance of the stack pointer is on the stack, and may be changed.
const STACK_BYTES: usize = 1 << 16;

/// The handler to be called. Relaxed everywhere below: one thread is single-stepped at a time. What
/// its handler reads was written by the thread itself, or is ordered by the join of the thread
/// before.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// Number of instructions until then.
static LEFT: AtomicUsize = AtomicUsize::new(0);
static WAS_CALLED: AtomicBool = AtomicBool::new(false);
static IS_BLOCKED: AtomicBool = AtomicBool::new(false);

/// Calls `handler` once, after the calling thread has executed `after` instructions from the
/// next [`begin`] on, unless [`end`] comes before.
pub(crate) fn prepare(handler: fn(), after: usize) {
    HANDLER.store(handler as *mut (), Ordering::Relaxed);
    LEFT.store(after, Ordering::Relaxed);
    WAS_CALLED.store(false, Ordering::Relaxed);
    IS_BLOCKED.store(false, Ordering::Relaxed);
    // SAFETY: an all-zero action is valid to be filled.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = trap as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler only calls functions that signal handlers may call.
    let status =
        unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()) };
    assert_eq!(status, 0);
    // SAFETY: an all-zero set is valid to be filled.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is valid, here and below.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGTRAP) };
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut()) };
}

/// Counts instructions from here on.
#[inline(always)]
pub(crate) fn begin() {
    // SAFETY: sets a CPU flag, for which there is a handler.
    unsafe { asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq") };
}

/// Counts instructions up to here.
#[inline(always)]
pub(crate) fn end() {
    // SAFETY: clears the same flag.
    unsafe { asm!("pushfq", "and dword ptr [rsp], 0xFFFFFEFF", "popfq") };
}

/// True if the handler was called.
pub(crate) fn was_called() -> bool {
    WAS_CALLED.load(Ordering::Relaxed)
}

unsafe extern "C" fn trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted thread's context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let left = LEFT.load(Ordering::Relaxed);
    LEFT.store(left.saturating_sub(1), Ordering::Relaxed);
    let is_time = left == 0 && !IS_BLOCKED.load(Ordering::Relaxed);
    if is_time {
        WAS_CALLED.store(true, Ordering::Relaxed);
        // SAFETY: stored by `prepare` from a function of this type.
        let handler: fn() = unsafe { core::mem::transmute(HANDLER.load(Ordering::Relaxed)) };
        handler();
    }
    if is_time || !keep_trap_unblocked(registers) {
        registers[libc::REG_EFL as usize] &= !TRAP.cast_signed();
    }
}

/// If the next instruction is a system call that blocks signals, removes SIGTRAP from its set.
/// False if that is not possible.
fn keep_trap_unblocked(registers: &[libc::greg_t; 23]) -> bool {
    let register = |number: i32| registers[number as usize].cast_unsigned() as usize;
    let next = core::ptr::with_exposed_provenance::<[u8; 2]>(register(libc::REG_RIP));
    // SAFETY: the next instruction is mapped, and an instruction at the end of a mapping is longer
    // than one byte.
    let is_call = unsafe { next.read_unaligned() } == SYSCALL;
    let set = core::ptr::with_exposed_provenance_mut::<u64>(register(libc::REG_RSI));
    let is_mask = register(libc::REG_RAX) == libc::SYS_rt_sigprocmask as usize;
    if !is_call || !is_mask || set.is_null() {
        return true;
    }
    let bit = 1 << (libc::SIGTRAP - 1);
    // SAFETY: the argument of the call: a set of 64 signals.
    let signals = unsafe { set.read() };
    let blocks = signals & bit != 0;
    let how = register(libc::REG_RDI) as libc::c_int;
    if how == libc::SIG_SETMASK || blocks {
        IS_BLOCKED.store(blocks && how != libc::SIG_UNBLOCK, Ordering::Relaxed);
    }
    if blocks && how != libc::SIG_UNBLOCK {
        if set.addr().abs_diff(register(libc::REG_RSP)) > STACK_BYTES {
            return false;
        }
        // SAFETY: on the stack of this thread, and only this call reads the set.
        unsafe { set.write(signals & !bit) };
    }
    true
}
