//! The tracer's control of the child: breakpoints, stops, migration to another CPU.
//!
//! The child is a fork, so code and board have the same addresses in both.

use core::ffi::c_void;

use super::child::{self, Board, Operation};
use super::machine::{self, BREAKPOINT, PAST_BREAKPOINT};

/// Why the child is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// At a breakpoint with this address, or after a single step.
    Trap(usize),
    /// The child passes the turn to the tracer.
    Rendezvous,
    /// By an unexpected signal.
    Signal(i32),
    /// The child has ended; the wait status.
    Ended(i32),
}

/// A breakpoint, with the original code.
#[derive(Debug)]
pub(crate) struct Planted {
    address: usize,
    before: libc::c_long,
}

pub(crate) struct Tracee {
    pid: libc::pid_t,
    board: &'static Board,
    operation: Operation,
    away: usize,
}

/// Exit status of a child that may not be traced.
const NOT_PERMITTED: i32 = 77;

impl Tracee {
    /// Starts a child and waits until it stops; `None` where it may not be traced.
    pub(crate) fn start(operation: Operation, places: [usize; 2]) -> Option<Tracee> {
        let board = map_board();
        let tracer = std::process::id();
        // SAFETY: the child runs code of this file and `child` only and never returns.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            submit(tracer);
            child::run(board, operation, places);
        }
        let tracee = Tracee { pid, board, operation, away: places[1] };
        match tracee.wait() {
            Stop::Rendezvous => Some(tracee),
            Stop::Ended(status) if libc::WEXITSTATUS(status) == NOT_PERMITTED => None,
            other => panic!("the child came to {other:?}"),
        }
    }

    pub(crate) fn board(&self) -> &'static Board {
        self.board
    }

    pub(crate) fn operation(&self) -> Operation {
        self.operation
    }

    /// Lets the child run until it has prepared its words for the input on the board.
    pub(crate) fn settle(&self) {
        let stop = self.resume(0);
        assert_eq!(stop, Stop::Rendezvous, "while it prepared");
    }

    /// Lets the child run, with a signal if that is not 0, until it stops again.
    pub(crate) fn resume(&self, signal: i32) -> Stop {
        self.request(libc::PTRACE_CONT, 0, signal as usize);
        self.wait()
    }

    /// Lets the child execute one instruction.
    pub(crate) fn step(&self) -> Stop {
        self.request(libc::PTRACE_SINGLESTEP, 0, 0);
        self.wait()
    }

    pub(crate) fn plant(&self, address: usize) -> Planted {
        let before = self.request(libc::PTRACE_PEEKTEXT, address, 0);
        let mut bytes = before.to_ne_bytes();
        bytes[..BREAKPOINT.len()].copy_from_slice(&BREAKPOINT);
        let with = libc::c_long::from_ne_bytes(bytes);
        self.request(libc::PTRACE_POKETEXT, address, with.cast_unsigned() as usize);
        Planted { address, before }
    }

    /// Removes a breakpoint. If breakpoints are closer than a word, the last one has to be removed
    /// first.
    pub(crate) fn lift(&self, planted: Planted) {
        let before = planted.before.cast_unsigned() as usize;
        self.request(libc::PTRACE_POKETEXT, planted.address, before);
    }

    pub(crate) fn set_ip(&self, address: usize) {
        machine::set_ip(self, address);
    }

    /// Restricts the child to its other CPU; it will be there when it continues.
    pub(crate) fn migrate(&self) {
        // SAFETY: an all-zero set is valid and empty.
        let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: the number is that of a CPU that a thread could be bound to.
        unsafe { libc::CPU_SET(self.away, &mut mask) };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the mask is valid for reads of its size.
        let status = unsafe { libc::sched_setaffinity(self.pid, size, &raw const mask) };
        assert_eq!(status, 0);
    }

    fn wait(&self) -> Stop {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!(pid, self.pid);
        if !libc::WIFSTOPPED(status) {
            return Stop::Ended(status);
        }
        match libc::WSTOPSIG(status) {
            libc::SIGSTOP => Stop::Rendezvous,
            libc::SIGTRAP => Stop::Trap(machine::ip(self) - PAST_BREAKPOINT),
            other => Stop::Signal(other),
        }
    }

    pub(crate) fn request(
        &self,
        request: libc::c_uint,
        address: usize,
        data: usize,
    ) -> libc::c_long {
        let address = core::ptr::without_provenance_mut::<c_void>(address);
        let data = core::ptr::without_provenance_mut::<c_void>(data);
        // SAFETY: libc's own variable of this thread.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above. A value that was read may be -1, so errno distinguishes errors.
        unsafe { errno.write(0) };
        // SAFETY: the child's memory and registers are changed, not those of this process.
        let result = unsafe { libc::ptrace(request, self.pid, address, data) };
        let error = std::io::Error::last_os_error();
        assert!(result != -1 || error.raw_os_error() == Some(0), "{request}: {error}");
        result
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // SAFETY: this process's own child, which has not been reaped yet.
        let _ = unsafe { libc::kill(self.pid, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        let _ = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        let size = size_of::<Board>();
        // SAFETY: mapped by `map_board` with this size; the child has ended, and this is the last
        // use.
        let _ = unsafe { libc::munmap((&raw const *self.board).cast_mut().cast(), size) };
    }
}

/// In the child: requests to be traced, and to end with the tracer.
fn submit(tracer: u32) {
    // SAFETY: integers only.
    let _ = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: no precondition.
    let parent = unsafe { libc::getppid() };
    let none = core::ptr::null_mut::<c_void>();
    // SAFETY: no memory is touched.
    let status = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, none, none) };
    if status != 0 || parent.cast_unsigned() != tracer {
        // SAFETY: ends the process without running any code of the test harness.
        unsafe { libc::_exit(NOT_PERMITTED) };
    }
}

/// A zeroed board that parent and child share.
fn map_board() -> &'static Board {
    let size = size_of::<Board>();
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which replaces nothing.
    let board = unsafe { libc::mmap(core::ptr::null_mut(), size, protection, flags, -1, 0) };
    assert_ne!(board, libc::MAP_FAILED);
    board.expose_provenance();
    // SAFETY: the board is mapped and aligned to a page. Zero is a valid value of every field, and
    // all fields are atomic.
    unsafe { &*board.cast::<Board>() }
}
