//! The tracer's control of the child: breakpoints, stops, migration to another CPU.
//!
//! The child is a fork, so code and board have the same addresses in both.

use super::child::{self, Board, Operation};
use super::machine::{self, PAST_BREAKPOINT};
use super::traced::{self, Planted, Traced};

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

pub(crate) struct Tracee {
    thread: Traced,
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
        let tracee = Tracee { thread: Traced(pid), board, operation, away: places[1] };
        match tracee.stop(tracee.thread.wait()) {
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
        self.stop(self.thread.resume(libc::PTRACE_CONT, signal))
    }

    /// Lets the child execute one instruction.
    pub(crate) fn step(&self) -> Stop {
        self.stop(self.thread.resume(libc::PTRACE_SINGLESTEP, 0))
    }

    pub(crate) fn plant(&self, address: usize) -> Planted {
        self.thread.plant(address)
    }

    pub(crate) fn lift(&self, planted: Planted) {
        self.thread.lift(planted);
    }

    pub(crate) fn set_ip(&self, address: usize) {
        machine::set_ip(self.thread, address);
    }

    /// Restricts the child to its other CPU; it will be there when it continues.
    pub(crate) fn migrate(&self) {
        // SAFETY: an all-zero set is valid and empty.
        let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: the number is that of a CPU that a thread could be bound to.
        unsafe { libc::CPU_SET(self.away, &mut mask) };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the mask is valid for reads of its size.
        let status = unsafe { libc::sched_setaffinity(self.thread.0, size, &raw const mask) };
        assert_eq!(status, 0);
    }

    fn stop(&self, status: i32) -> Stop {
        if !libc::WIFSTOPPED(status) {
            return Stop::Ended(status);
        }
        match libc::WSTOPSIG(status) {
            libc::SIGSTOP => Stop::Rendezvous,
            libc::SIGTRAP => Stop::Trap(machine::ip(self.thread) - PAST_BREAKPOINT),
            other => Stop::Signal(other),
        }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // SAFETY: this process's own child, which has not been reaped yet.
        let _ = unsafe { libc::kill(self.thread.0, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        let _ = unsafe { libc::waitpid(self.thread.0, &raw mut status, 0) };
        let size = size_of::<Board>();
        // SAFETY: mapped by `map_board` with this size; the child has ended, and this is the last
        // use.
        let _ = unsafe { libc::munmap((&raw const *self.board).cast_mut().cast(), size) };
    }
}

/// In the child: requests to be traced, and ends it if that is not permitted or if the tracer has
/// ended.
fn submit(tracer: u32) {
    let submitted = traced::submit();
    // SAFETY: no precondition.
    let parent = unsafe { libc::getppid() };
    if submitted.is_err() || parent.cast_unsigned() != tracer {
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
