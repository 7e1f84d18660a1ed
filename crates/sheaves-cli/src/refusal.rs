//! Why the command refuses: one line and an exit status.
//!
//! The statuses are those of a shell and of `env(1)`, so that scripts can distinguish them.

/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// The program was found but cannot run, or cannot run on Sheaves.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `sheaves run` itself failed before it started the program.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Statuses of `sysexits.h`, for subcommands that start no program.
const BAD_DATA: u8 = 65;
const NO_INPUT: u8 = 66;
const UNAVAILABLE: u8 = 69;
const CANNOT_CREATE: u8 = 73;

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

    /// Something is not to be reached: status 69.
    pub(crate) fn unavailable(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: UNAVAILABLE }
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
