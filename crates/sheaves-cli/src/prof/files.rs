//! Opens files that others name: a dump, a core dump, a process.
//!
//! Such a name may be that of a pipe, of a device, or of a file whose owner changes it while it is
//! read. So a file is looked at before it is opened, and what may be mapped into this command is
//! only what belongs to root or to its own user.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use core::time::Duration;

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, open, openat, openat2,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::dump::Mapping;
use crate::ask::apart;

/// The largest file of another user that is read.
const FOREIGN_BYTES_MAX: u64 = 16 << 20;
/// `FUSE_SUPER_MAGIC`: what a process serves itself, in its own time and in anyone's name.
const FUSE: u64 = 0x6573_5546;
/// How long it may take to open a file.
const LIMIT: Duration = Duration::from_secs(1);

/// Where the names of mapped files lead.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Where this command is.
    Here,
    /// Where this process is, which may have another root.
    Process(u32),
}

/// A mapped file.
pub(crate) enum Found {
    /// Of root or this user: a path that leads to it as long as it is open.
    Trusted(File, PathBuf),
    /// Of another user: what it has now.
    Foreign(Vec<u8>),
}

/// Opens the file of a mapping, if it is a regular one and small enough.
pub(crate) fn find(mapping: &Mapping, place: Place) -> Option<Found> {
    let mapping = mapping.clone();
    apart::within(LIMIT, move || find_now(&mapping, place)).flatten()
}

fn find_now(mapping: &Mapping, place: Place) -> Option<Found> {
    let found = match place {
        Place::Here => open(&mapping.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?,
        Place::Process(pid) => in_process(mapping, pid)?,
    };
    let status = fstat(&found).ok()?;
    let is_regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    if !is_regular || fstatfs(&found).ok()?.f_type as u64 == FUSE {
        return None;
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty()).ok()?);
    if status.st_uid == 0 || status.st_uid == geteuid().as_raw() {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        return Some(Found::Trusted(file, path.into()));
    }
    let mut bytes = Vec::new();
    file.take(FOREIGN_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= FOREIGN_BYTES_MAX).then_some(Found::Foreign(bytes))
}

/// The file that a process has mapped: the very one, which root only can open, or else the one that
/// has its name now.
fn in_process(mapping: &Mapping, pid: u32) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let range = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let by_name = || -> Result<OwnedFd, Errno> {
        let root = open(format!("/proc/{pid}/root"), flags | OFlags::DIRECTORY, Mode::empty())?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&root, mapping.path.as_str(), flags, Mode::empty(), resolve)
    };
    openat(CWD, range, flags, Mode::empty()).or_else(|_| by_name()).ok()
}
