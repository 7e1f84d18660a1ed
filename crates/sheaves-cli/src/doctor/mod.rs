//! `sheaves doctor`: what this machine offers to Sheaves, which engine is in use, and what to
//! improve.
//!
//! Facts come from three modules: the kernel and the C library ([`platform`]), memory and its
//! limits ([`memory`]), and a real program under the preload object ([`in_effect`]). Only the last
//! is proof: the others explain its result.

mod in_effect;
mod memory;
mod platform;
mod report;

use std::process::ExitCode;

use crate::command_line::DoctorOptions;
use crate::output::print;
use crate::refusal::Refusal;
use report::Report;

/// Runs all checks and prints the report. The exit status is a failure when a check failed.
pub(crate) fn doctor(options: &DoctorOptions) -> Result<ExitCode, Refusal> {
    let kernel = platform::kernel_rseq();
    let mut checks = platform::checks(&kernel);
    checks.extend(memory::checks());
    checks.extend(in_effect::checks(options.preload.as_deref(), &kernel));
    if let Some(program) = &options.program {
        checks.push(in_effect::program(program, options.preload.as_deref()));
    }
    let report = Report::new(checks);
    print(&if options.json { report.json()? } else { report.table() })?;
    Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
