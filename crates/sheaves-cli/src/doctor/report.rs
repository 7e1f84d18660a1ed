//! The findings of the doctor, as a table for humans and as one JSON object for programs.

use core::fmt::Write as _;

use serde::Serialize;

use crate::refusal::Refusal;

/// How a check ended.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// Sheaves works, but slower, or with a limit that a program may reach.
    Warn,
    /// Sheaves does not work.
    Fail,
}

/// One finding.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Check {
    /// Name of the check; stable, for programs.
    pub(crate) name: &'static str,
    /// The result.
    pub(crate) status: Status,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it; empty where there is nothing to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) advice: String,
}

impl Check {
    /// A check that passed.
    pub(crate) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), advice: String::new() }
    }

    /// A check that passed with a restriction.
    pub(crate) fn warn(
        name: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { name, status: Status::Warn, found: found.into(), advice: advice.into() }
    }

    /// A check that failed.
    pub(crate) fn fail(
        name: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { name, status: Status::Fail, found: found.into(), advice: advice.into() }
    }
}

/// All findings, and the worst status among them.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    status: Status,
    checks: Vec<Check>,
}

impl Report {
    /// Computes the worst status.
    pub(crate) fn new(checks: Vec<Check>) -> Self {
        let status = checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok);
        Self { schema: "sheaves-doctor/1", status, checks }
    }

    /// Whether Sheaves does not work here.
    pub(crate) fn failed(&self) -> bool {
        self.status == Status::Fail
    }

    /// One line per finding, advice below it.
    pub(crate) fn table(&self) -> String {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let mut table = String::new();
        for Check { name, status, found, advice } in &self.checks {
            let status = match status {
                Status::Ok => "OK",
                Status::Warn => "WARN",
                Status::Fail => "FAIL",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{status:<5} {name:<width$}  {found}");
            if !advice.is_empty() {
                let _ = writeln!(table, "{:<5} {:<width$}  -> {advice}", "", "");
            }
        }
        table
    }

    /// One object: `{schema, status, checks: [{name, status, found, advice}]}`.
    pub(crate) fn json(&self) -> Result<String, Refusal> {
        let text = serde_json::to_string_pretty(self);
        let refused = |error| Refusal::output(format!("cannot write JSON: {error}"));
        text.map(|text| text + "\n").map_err(refused)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/doctor_report.rs"]
mod tests;
