//! Why the command does not do what was asked: one line and the exit status that goes with it.
//!
//! The statuses are those of a shell and of `env(1)`, so that scripts can tell them apart.

/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// The program was found but cannot be run (on Sheaves).
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `sheaves run` itself failed, before the program had a chance.
pub(crate) const OWN_FAILURE: u8 = 125;

/// One clear line for stderr, without the leading `sheaves: `, and an exit status.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What was wrong, and what to do where something can be done.
    pub(crate) line: String,
    /// The exit status of the command.
    pub(crate) status: u8,
}

impl Refusal {
    /// The program does not exist: status 127.
    pub(crate) fn not_found(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: NOT_FOUND }
    }

    /// The program exists but cannot run, or not on Sheaves: status 126.
    pub(crate) fn not_executable(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: NOT_EXECUTABLE }
    }

    /// Sheaves is at fault, not the program: status 125.
    pub(crate) fn own_failure(line: impl Into<String>) -> Self {
        Self { line: line.into(), status: OWN_FAILURE }
    }
}
