//! Whether the program has put itself into a sandbox, in which a system call may end the process.
//!
//! No call can ask that: the sandbox may not permit the question. So the program says it
//! beforehand, or the preload object notices the call by which it does. From then on this process
//! and its children make no system call but those of a `malloc`: `mmap`, `munmap`, `mremap`,
//! `mprotect`, `madvise` and `futex`. Functions of this crate that would make another one fail, as
//! if the kernel had refused it. A process that *begins* in a sandbox is not in one in this sense.

use core::sync::atomic::{AtomicBool, Ordering, fence};

#[unsafe(link_section = ".sheaves_load")]
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// True from [`enter`] on, in this process and its children. Always true under Miri, which knows
/// few other calls, and where no thread of the library may be left at the end.
#[inline]
pub fn is_entered() -> bool {
    // Relaxed: a flag that is set for good, before the sandbox is there.
    cfg!(miri) || IS_ENTERED.load(Ordering::Relaxed)
}

#[unsafe(link_section = ".sheaves_load")]
static IS_NEAR: AtomicBool = AtomicBool::new(false);

/// True from [`approach`] on: no slot gets anything any more that another thread may have to reach.
#[inline]
pub fn is_near() -> bool {
    // Relaxed: a flag that is set for good. Locks order it with what is taken out of the slots.
    IS_NEAR.load(Ordering::Relaxed)
}

/// Comes before [`enter`]: the layers above take out of the slots what they could not reach then.
pub fn approach() {
    // Relaxed: as above.
    IS_NEAR.store(true, Ordering::Relaxed);
}

/// Notes that the program is about to enter a sandbox. The layers above end the library's threads,
/// which are [`crate::thread::own`]: no other one is started. Async-signal-safe.
pub fn enter() {
    // Relaxed: as above.
    IS_ENTERED.store(true, Ordering::Relaxed);
    // SeqCst pairs with the fence in `thread::own`. [N1]
    fence(Ordering::SeqCst);
}

/// The option of `prctl` by which a program enters a sandbox.
pub const PR_SET_SECCOMP: i32 = libc::PR_SET_SECCOMP;
/// One of the system calls that do it.
pub const SYS_SECCOMP: i32 = libc::SYS_seccomp as i32;
/// The other one.
pub const SYS_PRCTL: i32 = libc::SYS_prctl as i32;

/// True if `prctl` with these arguments enters a sandbox. Without a filter it only asks whether the
/// kernel has filters.
pub fn is_entered_by_prctl(option: i32, mode: usize, filter: usize) -> bool {
    let mode = mode as u32;
    option == PR_SET_SECCOMP
        && (mode == libc::SECCOMP_MODE_STRICT || (mode == libc::SECCOMP_MODE_FILTER && filter != 0))
}

/// True if `syscall` with these arguments enters a sandbox. What the kernel has to refuse only asks
/// which calls it has: libseccomp does that in programs that enter no sandbox.
pub fn is_entered_by_syscall(number: i32, arguments: [usize; 3]) -> bool {
    let [first, second, third] = arguments;
    match number {
        SYS_PRCTL => is_entered_by_prctl(first as i32, second, third),
        SYS_SECCOMP => match first as u32 {
            libc::SECCOMP_SET_MODE_STRICT => (second as u32, third) == (0, 0),
            libc::SECCOMP_SET_MODE_FILTER => third != 0,
            _ => false,
        },
        _ => false,
    }
}
