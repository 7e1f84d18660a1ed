//! Asks a running process.

use crate::refusal::Refusal;

/// The answer of a process to a command with a number.
pub(crate) fn fetch(pid: u32, command: &str, _argument: u64) -> Result<String, Refusal> {
    Err(Refusal::unavailable(format!(
        "cannot ask process {pid} for {command}: this build reads files only; a program writes \
         one by sheaves_prof_dump() or with SHEAVES_PROF_FILE"
    )))
}
