//! What `/proc` says of a process.
//!
//! The process decides how much that is: how many files it has open and mapped, and what they are
//! called. So files are read line by line, up to a limit.

use core::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sheaves_control::layout::LINK;

use crate::output;
use crate::prof::dump::{Mapping, mapping};

/// Read at most of a file in `/proc`: the mappings of the largest programs have a tenth.
const BYTES_MAX: u64 = 64 << 20;
/// Mappings of files that are kept: by default a process has at most that many mappings.
const MAPPINGS_MAX: usize = 1 << 16;
/// Bytes of their names.
const PATHS_BYTES_MAX: usize = 16 << 20;
/// Open files that are looked at.
const FILES_MAX: usize = 1 << 16;

/// A process, as it was when it was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// Its number here.
    pub(crate) pid: u32,
    /// Its number in its own namespace.
    pub(crate) own_number: u32,
    /// The name of its main thread, fit to be shown.
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
        let status = Status::read(&format!("/proc/{pid}/status"))?;
        if status.numbers("Tgid:") != [pid] {
            return None;
        }
        Some(Self {
            pid,
            own_number: status.numbers("NSpid:").last().copied().unwrap_or(pid),
            name: output::name(status.value("Name:").trim_ascii()),
            users: status.numbers("Uid:"),
            object: None,
        })
    }

    /// What it has in memory now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = Status::read(&format!("/proc/{}/status", self.pid));
        // In KiB; a process that ends has no such line.
        let numbers = status.map(|status| status.numbers("VmRSS:")).unwrap_or_default();
        numbers.first().map_or(0, |kib| u64::from(*kib) << 10)
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
        let mut mappings = lines(self.path("maps")).filter_map(|line| mapping(&line));
        let found = mappings.find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        // A file that was replaced while the process ran.
        let path = found.path.strip_suffix(" (deleted)").unwrap_or(&found.path);
        path.rsplit('/').next().map(|file| output::name(file.as_bytes()))
    }

    /// The mapping of a file, private and writable, that has an address.
    pub(crate) fn data_at(&self, address: u64) -> Option<Mapping> {
        let is_data = |line: &String| {
            let rights = line.split(' ').nth(1).map(str::as_bytes);
            matches!(rights, Some([b'r', b'w', _, b'p']))
        };
        let mut all = lines(self.path("maps")).filter(is_data).filter_map(|line| mapping(&line));
        all.find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// The files that it has mapped.
    pub(crate) fn mappings(&self) -> Vec<Mapping> {
        let mut bytes = 0;
        let all = lines(self.path("maps")).filter_map(|line| mapping(&line)).take(MAPPINGS_MAX);
        let is_kept = |mapping: &Mapping| {
            bytes += mapping.path.len();
            bytes <= PATHS_BYTES_MAX
        };
        all.take_while(is_kept).collect()
    }

    /// The numbers of all processes but this one, which has a control page, too.
    pub(crate) fn others() -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut others: Vec<_> = numbers.filter(|pid| *pid != std::process::id()).collect();
        others.sort_unstable();
        others
    }

    /// The number here of a thread that has this number in the process's own namespace.
    pub(crate) fn thread(&self, own_number: i32) -> Option<i32> {
        let tasks = fs::read_dir(self.path("task")).ok()?;
        let mut threads =
            tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        threads.find(|thread| self.has_thread(*thread, own_number))
    }

    /// True if a thread, by its number here, is one of the process, with this number in its own
    /// namespace.
    pub(crate) fn has_thread(&self, thread: i32, own_number: i32) -> bool {
        let path = self.path("task").join(thread.to_string()).join("status");
        let status = path.to_str().and_then(Status::read);
        let own = status.and_then(|status| status.numbers("NSpid:").last().copied());
        own.is_some_and(|own| i32::try_from(own) == Ok(own_number))
    }

    /// A file of it in `/proc`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    /// Where its open files are that may be control pages, by the links of their descriptors.
    pub(crate) fn open_pages(&self) -> std::io::Result<impl Iterator<Item = PathBuf> + use<>> {
        let paths = fs::read_dir(self.path("fd"))?.flatten().map(|entry| entry.path());
        let is_page = |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link == *LINK);
        Ok(paths.take(FILES_MAX).filter(is_page))
    }

    /// Where its mapped files are that may be control pages. Root only can open them.
    pub(crate) fn mapped_pages(&self) -> impl Iterator<Item = PathBuf> + use<'_> {
        let ranges = lines(self.path("maps")).filter(|line| line.ends_with(LINK));
        let range = |line: String| Some(line.split_once(' ')?.0.to_owned());
        ranges.filter_map(range).map(|range| self.path("map_files").join(range))
    }

    /// It has ended, and perhaps its parent has not noticed.
    pub(crate) fn has_ended(&self) -> bool {
        is_of_ended(&fs::read(self.path("stat")).unwrap_or_default())
    }

    /// It has a library of Sheaves, or the page of its parent.
    pub(crate) fn is_on_sheaves(&self) -> bool {
        lines(self.path("maps")).any(|line| line.contains("/libsheaves") || line.contains(LINK))
    }

    /// The word by which it was started without a page, if it was.
    pub(crate) fn refuses_by(&self) -> Option<&'static str> {
        let file = File::open(self.path("environ")).ok()?;
        let entries = BufReader::new(file.take(BYTES_MAX)).split(0);
        let word = |entry: Vec<u8>| {
            let value = entry.strip_prefix(b"SHEAVES_CONTROL=")?;
            ["0", "false", "no", "off"].into_iter().find(|word| word.as_bytes() == value)
        };
        entries.map_while(Result::ok).find_map(word)
    }
}

/// A process that is open, so that another one which gets its number is not taken for it.
#[derive(Debug)]
pub(crate) enum Handle {
    Pidfd(OwnedFd),
    /// Its folder in `/proc`, where there is no `pidfd_open(2)`: before Linux 5.3, and in
    /// containers that do not permit it.
    Folder(OwnedFd),
}

impl Handle {
    /// `None` if no process has this number.
    pub(super) fn open(pid: u32) -> Result<Option<Self>, Errno> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else { return Ok(None) };
        let opened = match pidfd_open(number, PidfdFlags::empty()) {
            Err(Errno::NOSYS | Errno::PERM) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).map(Self::Folder)
            }
            pidfd => pidfd.map(Self::Pidfd),
        };
        match opened {
            Ok(handle) => Ok(Some(handle)),
            // Of a thread's number, too, by the version of the kernel.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True until the process ends.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Pidfd(pidfd) => {
                let mut ends = [PollFd::new(pidfd, PollFlags::IN)];
                poll(&mut ends, Some(&Timespec::default())).is_ok_and(|count| count == 0)
            }
            Self::Folder(folder) => {
                let mut stat = Vec::new();
                let file = openat(folder, "stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
                // Neither works once the process is reaped.
                let read = file.ok().map(|file| File::from(file).read_to_end(&mut stat));
                matches!(read, Some(Ok(_))) && !is_of_ended(&stat)
            }
        }
    }
}

/// True of the file `stat` of a process that has ended.
fn is_of_ended(stat: &[u8]) -> bool {
    let name_end = stat.windows(2).rposition(|bytes| bytes == b") ");
    matches!(name_end.and_then(|at| stat.get(at + 2)), None | Some(b'Z' | b'X'))
}

/// The lines of a file in `/proc`, as far as they are read. Paths in them may have any bytes.
fn lines(path: PathBuf) -> impl Iterator<Item = String> + use<> {
    let file = File::open(path).ok().map(|file| BufReader::new(file.take(BYTES_MAX)));
    let lines = file.into_iter().flat_map(|file| file.split(b'\n').map_while(Result::ok));
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// A file `status`. Its name may end inside a character.
struct Status(Vec<u8>);

impl Status {
    fn read(path: &str) -> Option<Self> {
        fs::read(path).ok().map(Self)
    }

    fn value(&self, name: &str) -> &[u8] {
        let mut lines = self.0.split(|byte| *byte == b'\n');
        lines.find_map(|line| line.strip_prefix(name.as_bytes())).unwrap_or_default()
    }

    fn numbers(&self, name: &str) -> Vec<u32> {
        let value = str::from_utf8(self.value(name)).unwrap_or_default();
        value.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
    }
}
