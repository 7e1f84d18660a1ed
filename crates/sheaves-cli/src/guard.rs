//! `sheaves guard`: turns guard samples of a running process on and off.

use std::process::ExitCode;

use sheaves_control::layout::{GUARD_OFF, GUARD_ON};

use crate::ask::{Asked, named};
use crate::command_line::GuardCommand;
use crate::refusal::Refusal;

/// Runs a subcommand of `sheaves guard`.
pub(crate) fn run(command: &GuardCommand) -> Result<ExitCode, Refusal> {
    match command {
        GuardCommand::On { process, rate } => Asked::tell(named::one(process)?, GUARD_ON, *rate)?,
        GuardCommand::Off { process } => Asked::tell(named::one(process)?, GUARD_OFF, 0)?,
    }
    Ok(ExitCode::SUCCESS)
}
