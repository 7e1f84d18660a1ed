//! The control page, as both sides see it, and its states.
//!
//! | state | what may change the page | transitions |
//! |---|---|---|
//! | [`IDLE`] | the tool that has locked the file | -> [`REQUESTED`], by the tool, with a wake |
//! | [`REQUESTED`] | none | -> [`ANSWERING`], by the process named; -> [`IDLE`], by a tool |
//! | [`ANSWERING`] | that thread | -> [`ANSWERED`] or back, with a wake; -> [`IDLE`], by a tool |
//! | [`ANSWERED`] | the tool | -> [`IDLE`] |
//!
//! The lock is that of `flock(2)` on the tool's own open file description, so the kernel releases
//! it when the tool ends. A tool that finds what an earlier one has left behind makes it [`IDLE`],
//! and waits while a thread is answering. A process that finds any other state does nothing.
//!
//! A thread takes a request, then looks again which process it names. It makes the state of a
//! request to another process [`REQUESTED`] again.
//!
//! A process may be killed while it answers, and the others that share its page have to answer
//! later. So a tool that asks another one waits for half of its time only. A process that lives,
//! and was slow, finds that it is not the one named, or that the state has changed: it writes no
//! more of its answer. What it was writing at that moment may damage that of the other process.
//!
//! The answer begins at [`ANSWER_AT`] of the file. The tool punches a hole there when it has read
//! it. Numbers are in the machine's byte order.

use core::sync::atomic::{AtomicU32, AtomicU64};

pub use sheaves_heap::classes::CLOSING_WORDS_IN_FILE;
pub use sheaves_sys::request::{REQUESTED, ToolRequest};

/// Nothing is requested.
pub const IDLE: u32 = 0;
/// A thread of the process writes the answer.
pub const ANSWERING: u32 = 2;
/// The answer is there.
pub const ANSWERED: u32 = 3;

/// The name of the file, as `memfd_create(2)` gets it.
pub const NAME: &core::ffi::CStr = c"sheaves-control";
/// What `readlink` of its descriptor in `/proc` shows.
pub const LINK: &str = "/memfd:sheaves-control (deleted)";

/// `SHEAVES!`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SHEAVES!");
/// Changes when an older tool or process would misread the page.
pub const VERSION: u32 = 2;
/// Where the answer begins.
pub const ANSWER_AT: usize = 4096;
/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes of the file. The process maps what is before the answer, and all of it while it answers.
/// Only what is written to has memory.
pub const FILE_BYTES: usize = ANSWER_AT + ANSWER_BYTES_MAX;

/// Statistics as JSON, see `sheaves_heap::report`.
pub const STATISTICS: u32 = 1;
/// Readers and grace periods as JSON, see `sheaves_heap::report::rcu`.
pub const RCU: u32 = 2;
/// Statistics as text.
pub const STATISTICS_TEXT: u32 = 3;

/// Turns the heap profile on: a sample in as many bytes as the argument says, in the mean.
pub const PROFILE_START: u32 = 4;
/// Turns the heap profile off.
pub const PROFILE_STOP: u32 = 5;
/// A heap profile, see `sheaves_heap::profile`.
pub const PROFILE_DUMP: u32 = 6;

/// Guards one in as many samples as the argument says, see `sheaves_heap::guard`.
pub const GUARD_ON: u32 = 7;
/// Guards no further samples.
pub const GUARD_OFF: u32 = 8;

/// In the argument of [`RCU`]: begins a grace period after the answer, so that sections which begin
/// later have another sequence.
pub const BEGIN_GRACE_PERIOD: u64 = 1;

/// The page.
#[repr(C)]
#[derive(Debug)]
pub struct Page {
    /// [`MAGIC`], stored last when the page is made.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// What is requested.
    pub command: AtomicU32,
    /// Its state, see the table above, and of which process: the page is that of a program and of
    /// its children by `fork`.
    pub request: ToolRequest,
    /// Its argument.
    pub argument: AtomicU64,
    /// A value of `errno` for which the answer is missing or not complete; else 0.
    pub status: AtomicU32,
    /// 0.
    pub reserved: AtomicU32,
    /// Bytes of the answer.
    pub answer_bytes: AtomicU64,
    /// An address in the object that answers: a process may have Sheaves more than once, in the
    /// preload object and in a library or the program, each with a heap and a page. 0 if unknown.
    pub object: AtomicU64,
    /// The address of the words of `sheaves_heap::classes::closing_words`, by which a tool that may
    /// write to the memory of the process gets an answer from one that never takes a slow path. 0
    /// in a process that does not know it. [`CLOSING_WORDS_IN_FILE`] tells whether they are there.
    pub closing_words: AtomicU64,
}

const _: () = assert!(size_of::<Page>() == 64);
