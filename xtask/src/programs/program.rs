//! A program, one round of it, and its result.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::usage::Usage;

/// Why a program could not be run.
pub(super) type Result<T> = anyhow::Result<T>;

/// A program and how it is run.
#[derive(Clone, Copy)]
pub(super) struct Program {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// What is measured.
    pub(super) what: &'static str,
    /// Commands and files that it needs, each with Debian's package.
    pub(super) needs: &'static [(&'static str, &'static str)],
    /// Prepares its folder, once for all programs that share a folder.
    pub(super) set_up: fn(&Work) -> Result<()>,
    /// Its folder; programs with the same one share what was set up.
    pub(super) folder: &'static str,
    /// One run.
    pub(super) run: fn(&Round<'_>) -> Result<Sample>,
}

/// Where a program works, and for how long.
pub(super) struct Work {
    /// A folder that is kept from round to round.
    pub(super) folder: PathBuf,
    /// What to preload for libc's own allocator.
    pub(super) base: PathBuf,
    /// Length of a load, in seconds.
    pub(super) seconds: u32,
    /// Shorter loads.
    pub(super) is_quick: bool,
}

impl Work {
    /// The file for the output of a command.
    #[must_use]
    pub(super) fn log(&self, command: &str) -> PathBuf {
        self.folder.join(format!("{command}.log"))
    }
}

/// One run under one allocator.
pub(super) struct Round<'a> {
    /// Where.
    pub(super) work: &'a Work,
    /// The allocator's object.
    pub(super) preload: PathBuf,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
pub(super) struct Sample {
    /// Work done in a second: transactions, requests, or runs of the whole program.
    pub(super) per_second: f64,
    /// What it used.
    pub(super) usage: Usage,
}

impl Sample {
    /// Of a server.
    #[must_use]
    pub(super) fn rate(per_second: f64, usage: Usage) -> Sample {
        Sample { per_second, usage }
    }

    /// Processor time of one transaction, request or run, in seconds.
    #[must_use]
    pub(super) fn processor_seconds_each(&self) -> f64 {
        self.usage.processor_seconds / (self.per_second * self.usage.seconds)
    }

    /// Of a command that ran to its end.
    #[must_use]
    pub(super) fn run(usage: Usage) -> Sample {
        Sample { per_second: 1.0 / usage.seconds, usage }
    }
}

/// For programs that need no preparation.
pub(super) fn nothing(_work: &Work) -> Result<()> {
    Ok(())
}
