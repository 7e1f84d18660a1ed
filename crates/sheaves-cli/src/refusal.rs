//! Why the command refuses: one line and an exit status.
//!
//! The statuses of `sheaves run` are those of a shell and of `env(1)`, so that scripts can
//! distinguish them. Those of the commands that ask a running process are from `sysexits.h`.

/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// The program was found but cannot run, or cannot run on Sheaves.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `sheaves run` itself failed before it started the program.
pub(crate) const OWN_FAILURE: u8 = 125;

/// The input has another format (`EX_DATAERR`).
pub(crate) const BAD_DATA: u8 = 65;
/// The input cannot be read (`EX_NOINPUT`).
pub(crate) const NO_INPUT: u8 = 66;
/// There is no such process (`EX_NOUSER`).
pub(crate) const NO_PROCESS: u8 = 67;
/// The process does not run on Sheaves, or has ended (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// The output cannot be created (`EX_CANTCREAT`).
pub(crate) const CANNOT_CREATE: u8 = 73;
/// Output failed (`EX_IOERR`).
pub(crate) const OUTPUT: u8 = 74;
/// The process does not answer now (`EX_TEMPFAIL`).
pub(crate) const TRY_AGAIN: u8 = 75;
/// The process answers in another way, or its page is damaged (`EX_PROTOCOL`).
pub(crate) const PROTOCOL: u8 = 76;
/// The process is another user's (`EX_NOPERM`).
pub(crate) const NOT_PERMITTED: u8 = 77;

/// One line for stderr, without the leading `sheaves: `, and an exit status.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What is wrong, and what to do about it.
    pub(crate) line: String,
    /// The exit status of the command.
    pub(crate) status: u8,
}

impl Refusal {
    /// The program does not exist: status 127.
    pub(crate) fn not_found(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: NOT_FOUND }
    }

    /// The program exists but cannot run, or cannot run on Sheaves: status 126.
    pub(crate) fn not_executable(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: NOT_EXECUTABLE }
    }

    /// The input has another format: status 65.
    pub(crate) fn bad_data(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: BAD_DATA }
    }

    /// The input cannot be read: status 66.
    pub(crate) fn no_input(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: NO_INPUT }
    }

    /// There is no such process: status 67.
    pub(crate) fn no_process(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: NO_PROCESS }
    }

    /// The process cannot answer: status 69.
    pub(crate) fn unavailable(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: UNAVAILABLE }
    }

    /// What was asked for cannot be written: status 74.
    pub(crate) fn output(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: OUTPUT }
    }

    /// The process does not answer now: status 75.
    pub(crate) fn try_again(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: TRY_AGAIN }
    }

    /// The process answers in another way: status 76.
    pub(crate) fn protocol(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: PROTOCOL }
    }

    /// The process is another user's: status 77.
    pub(crate) fn not_permitted(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: NOT_PERMITTED }
    }

    /// The output cannot be written: status 73.
    pub(crate) fn cannot_create(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: CANNOT_CREATE }
    }

    /// Sheaves failed, not the program: status 125.
    pub(crate) fn own_failure(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: OWN_FAILURE }
    }
}
