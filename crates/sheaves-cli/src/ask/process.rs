//! What `/proc` says of a process.

use core::fmt;
use std::fs;
use std::path::PathBuf;

use sheaves_control::layout::LINK;

use crate::prof::dump::mapping;

/// A process, as it was when it was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// Its number here.
    pub(crate) pid: u32,
    /// Its number in its own namespace.
    pub(crate) own_number: u32,
    /// The name of its main thread.
    pub(crate) name: String,
    /// Its users: real, effective, saved, of the file system.
    pub(crate) users: Vec<u32>,
    /// The object of it that is asked, where several have Sheaves.
    pub(crate) object: Option<String>,
}

impl fmt::Display for Process {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "process {} ({})", self.pid, self.full_name())
    }
}

impl Process {
    /// `None` if there is no such process, or it is a thread.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let numbers = |name: &str| -> Vec<u32> {
            let words = value(name).unwrap_or_default().split_ascii_whitespace();
            words.filter_map(|word| word.parse().ok()).collect()
        };
        if numbers("Tgid:") != [pid] {
            return None;
        }
        Some(Self {
            pid,
            own_number: numbers("NSpid:").last().copied().unwrap_or(pid),
            name: value("Name:").unwrap_or_default().trim().to_owned(),
            users: numbers("Uid:"),
            object: None,
        })
    }

    /// Its name, and that of the object that is asked, where several have Sheaves.
    pub(crate) fn full_name(&self) -> String {
        match &self.object {
            None => self.name.clone(),
            Some(object) => format!("{}, {object}", self.name),
        }
    }

    /// The file that it has mapped at an address, without its folder.
    pub(crate) fn file_at(&self, address: u64) -> Option<String> {
        let maps = fs::read_to_string(self.path("maps")).ok()?;
        let mut mappings = maps.lines().filter_map(mapping);
        let found = mappings.find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        // A file that was replaced while the process ran.
        let path = found.path.strip_suffix(" (deleted)").unwrap_or(&found.path);
        path.rsplit('/').next().map(str::to_owned)
    }

    /// All processes that have a control page which this user may look for.
    pub(crate) fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // This command has one, too.
        let others = numbers.filter(|pid| *pid != std::process::id());
        let mut all: Vec<_> = others.filter(|pid| has_page(*pid)).filter_map(Self::read).collect();
        all.sort_by_key(|process| process.pid);
        all
    }

    /// A file of it in `/proc`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    /// Where what it has mapped of a file can be opened, by root only.
    pub(crate) fn mapped(&self, file: &str) -> Vec<PathBuf> {
        let maps = fs::read_to_string(self.path("maps")).unwrap_or_default();
        let ranges = maps.lines().filter(|line| line.ends_with(file));
        let paths = ranges.filter_map(|line| line.split(' ').next());
        paths.map(|range| self.path("map_files").join(range)).collect()
    }

    /// It has ended, and perhaps its parent has not noticed.
    pub(crate) fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(self.path("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, None | Some('Z' | 'X'))
    }

    /// It has a library of Sheaves, or the page of its parent.
    pub(crate) fn is_on_sheaves(&self) -> bool {
        let maps = fs::read_to_string(self.path("maps")).unwrap_or_default();
        maps.contains("/libsheaves") || maps.contains(LINK)
    }

    /// It was started with the option that leaves the page out.
    pub(crate) fn refuses(&self) -> bool {
        let environment = fs::read(self.path("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == b"SHEAVES_CONTROL=0")
    }
}

/// It has a control page open, or mapped.
fn has_page(pid: u32) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_page = |path| fs::read_link(path).is_ok_and(|to| to == *LINK);
    entries.map(|entry| entry.path()).any(is_page)
        || fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(LINK))
}
