//! Where a report was made: a figure without its machine is worth nothing.

use core::ffi::CStr;
use core::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

use super::allowed_cpus;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    /// How many CPUs this process may use.
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) glibc: String,
    /// Transparent huge pages: always, madvise or never.
    pub(crate) thp: String,
    /// The commit that the program was built from, where it was known then.
    pub(crate) commit: Option<String>,
}

impl Machine {
    /// This machine; what cannot be found out is `unknown`.
    pub(crate) fn this() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let known = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
        let info = read("/proc/cpuinfo");
        let release = read("/proc/sys/kernel/osrelease");
        let thp = read("/sys/kernel/mm/transparent_hugepage/enabled");
        Machine {
            cpu: known(model_of(&info)),
            cpus: allowed_cpus().len(),
            kernel: known(Some(release.trim()).filter(|release| !release.is_empty())),
            glibc: glibc_version(),
            thp: known(choice_of(&thp)),
            commit: option_env!("SHEAVES_COMMIT").map(str::to_owned),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cpus, kernel, glibc, thp, commit } = self;
        write!(f, "{cpu}, {cpus} CPUs, Linux {kernel}, glibc {glibc}, huge pages {thp}")?;
        match commit {
            Some(commit) => write!(f, ", commit {commit}"),
            None => Ok(()),
        }
    }
}

fn glibc_version() -> String {
    // SAFETY: the function has no precondition and returns a static C string.
    let version = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned()
}

fn model_of(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

/// The word in brackets.
fn choice_of(list: &str) -> Option<&str> {
    let (_, rest) = list.split_once('[')?;
    rest.split_once(']').map(|(choice, _)| choice)
}

#[cfg(test)]
#[path = "../../tests/unit/harness_machine.rs"]
mod tests;
