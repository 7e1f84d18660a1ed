//! Finds and opens control pages of a process.
//!
//! Any process can have a file of this name. It is opened in such a way that nothing happens to it
//! (`O_PATH`), looked at, and only then opened for reading and writing, which does not wait for a
//! lease that the process may have taken.

use core::time::Duration;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, fstatfs, openat};
use rustix::io::Errno;
use sheaves_control::client::{Client, Failure};
use sheaves_control::layout::FILE_BYTES;

use super::process::Process;
use super::refused::refuse;
use crate::refusal::Refusal;

/// More pages than any process has.
const PAGES_MAX: usize = 8;
/// `TMPFS_MAGIC` of `linux/magic.h`, the file system of `memfd_create(2)`.
const TMPFS: u64 = 0x0102_1994;

/// The control pages that a process has open.
pub(crate) fn find(process: &Process, limit: Duration) -> Result<Vec<PathBuf>, Refusal> {
    let refused = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => refuse(process, Failure::Gone, limit),
        _ if process.has_ended() => refuse(process, Failure::Gone, limit),
        _ => Refusal::not_permitted(format!(
            "{process} cannot be looked into: ask as its user, or as root ({error})"
        )),
    };
    let open: Vec<_> = process.open_pages().map_err(refused)?.take(PAGES_MAX).collect();
    // Programs close descriptors that they do not know. What is mapped can be opened by root.
    Ok(if open.is_empty() { process.mapped_pages().take(PAGES_MAX).collect() } else { open })
}

/// Opens a control page; `None` if it is closed meanwhile.
pub(crate) fn open(
    process: &Process,
    path: &Path,
    limit: Duration,
) -> Result<Option<(File, Client)>, Refusal> {
    let damaged = || refuse(process, Failure::Damaged, limit);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = match openat(CWD, path, flags, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(_) if !path.starts_with(process.path("fd")) => return Ok(None),
        Err(error) => return Err(cannot_open(process, error)),
    };
    if !is_page(&found, process).unwrap_or(false) {
        return Err(damaged());
    }
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = openat(CWD, again, flags, Mode::empty());
    let file = File::from(file.map_err(|error| cannot_open(process, error))?);
    let client =
        Client::attach(file.as_raw_fd()).map_err(|failure| refuse(process, failure, limit))?;
    Ok(Some((file, client)))
}

/// A file in memory without a name, of the size of a page and of the process's user.
fn is_page(found: &OwnedFd, process: &Process) -> Result<bool, Errno> {
    let file = fstat(found)?;
    let is_anonymous = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile
        && file.st_nlink == 0
        && fstatfs(found)?.f_type as u64 == TMPFS;
    // A program that has started as root, and become another user, made it as root.
    let is_theirs = file.st_uid == 0 || process.users.contains(&file.st_uid);
    Ok(is_anonymous && is_theirs && usize::try_from(file.st_size) == Ok(FILE_BYTES))
}

fn cannot_open(process: &Process, error: Errno) -> Refusal {
    if error == Errno::AGAIN {
        return Refusal::try_again(format!(
            "something holds a lease on the control page of {process}"
        ));
    }
    let error = io::Error::from(error);
    Refusal::not_permitted(format!("the control page of {process} cannot be opened: {error}"))
}
