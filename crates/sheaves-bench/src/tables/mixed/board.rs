//! What two threads and two processes share which are measured in turns: whose turn it is, and for
//! each of the four the CPU to run on and what it has done.
//!
//! It lies in a mapping that is shared across `fork`. No two of its users write to one cache line.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::futex;

use crate::harness::Failure;

/// Workers of each side.
pub(super) const WORKERS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Threads = 1,
    Processes = 2,
}

/// States of the turn besides the two sides.
const PAUSE: u32 = 0;
const END: u32 = 3;
/// A worker checks the turn this often even if no wake-up comes.
const SLEEP_NS: u64 = 1_000_000_000;

/// Two cache lines of 64 bytes, which some processors fetch together.
#[repr(C, align(128))]
struct Turn(AtomicU32);

#[repr(C, align(128))]
struct Lane {
    /// Written by the measuring thread.
    cpu: AtomicUsize,
    /// Replacements so far, written by the worker.
    done: AtomicU64,
}

/// All zeros at first: a pause, in which nothing is done yet.
#[repr(C)]
pub(super) struct Board {
    turn: Turn,
    lanes: [[Lane; WORKERS]; 2],
}

impl Board {
    fn lane(&self, side: Side, worker: usize) -> &Lane {
        &self.lanes[side as usize - 1][worker]
    }

    pub(super) fn give_turn(&self, side: Side) {
        self.set_turn(side as u32);
    }

    pub(super) fn pause(&self) {
        self.set_turn(PAUSE);
    }

    /// Makes all workers return.
    pub(super) fn end(&self) {
        self.set_turn(END);
    }

    fn set_turn(&self, turn: u32) {
        // Release: partner is the load in `wait_for_turn`; a worker that sees its turn sees the CPU
        // that was set before.
        self.turn.0.store(turn, Ordering::Release);
        futex::wake_all_shared(&self.turn.0);
    }

    /// Sleeps until it is the side's turn; false at the end.
    pub(super) fn wait_for_turn(&self, side: Side) -> bool {
        loop {
            // Acquire: partner is the store in `set_turn`.
            match self.turn.0.load(Ordering::Acquire) {
                END => return false,
                turn if turn == side as u32 => return true,
                turn => futex::wait_shared_for(&self.turn.0, turn, SLEEP_NS),
            }
        }
    }

    /// The worker goes to this CPU as soon as it is its turn.
    pub(super) fn set_cpu(&self, side: Side, worker: usize, cpu: usize) {
        // Relaxed: the number is all that is passed on.
        self.lane(side, worker).cpu.store(cpu, Ordering::Relaxed);
    }

    pub(super) fn cpu(&self, side: Side, worker: usize) -> usize {
        // Relaxed: the number is all that is passed on.
        self.lane(side, worker).cpu.load(Ordering::Relaxed)
    }

    /// Only the worker itself calls this.
    pub(super) fn add(&self, side: Side, worker: usize, count: u64) {
        let done = &self.lane(side, worker).done;
        // Relaxed: a count with one writer, which publishes nothing else.
        let before = done.load(Ordering::Relaxed);
        // Relaxed: as above.
        done.store(before + count, Ordering::Relaxed);
    }

    /// What the side has done so far, all workers together.
    pub(super) fn done(&self, side: Side) -> u64 {
        // Relaxed: the counts are read while they grow.
        (0..WORKERS).map(|worker| self.lane(side, worker).done.load(Ordering::Relaxed)).sum()
    }
}

/// The mapping of a [`Board`].
pub(super) struct Mapping(NonNull<Board>);

// SAFETY: the mapping belongs to no thread, and all of the board is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new() -> Result<Mapping, Failure> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let (none, bytes) = (core::ptr::null_mut(), size_of::<Board>());
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let address = unsafe { libc::mmap(none, bytes, access, kind, -1, 0) };
        match NonNull::new(address).filter(|_| address != libc::MAP_FAILED) {
            Some(board) => Ok(Mapping(board.cast())),
            None => Err(Failure::run("cannot map memory that processes share")),
        }
    }
}

impl Deref for Mapping {
    type Target = Board;

    fn deref(&self) -> &Board {
        // SAFETY: mapped until `drop`; pages are aligned well enough, and zeros are a value.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Board>()) };
    }
}
