//! What the kernel tells about memory.

use std::fs::File;
use std::io::Read;

use super::Failure;

/// Bytes that a field of a file under `/proc` says in KiB; none where the kernel does not tell.
pub(crate) fn bytes_of(file: &str, field: &str) -> Option<u64> {
    let mut buffer = [0; 4096];
    let text = read(file, &mut buffer)?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Bytes that could be had without driving anything out; none where the kernel does not tell.
pub(crate) fn available_bytes() -> Option<usize> {
    usize::try_from(bytes_of("/proc/meminfo", "MemAvailable:")?).ok()
}

/// Resident memory of the process; 0 where the kernel does not tell.
pub(crate) fn resident_bytes() -> u64 {
    resident_in("/proc/self/statm").unwrap_or(0)
}

/// Resident memory of the process that has this `/proc/PID/statm`.
pub(crate) fn resident_in(statm: &str) -> Option<u64> {
    let mut buffer = [0; 128];
    let pages: u64 = read(statm, &mut buffer)?.split_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: the call has no precondition.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page_bytes).ok()?)
}

/// Reads the beginning of a file and allocates nothing.
fn read<'b>(file: &str, buffer: &'b mut [u8]) -> Option<&'b str> {
    let count = File::open(file).ok()?.read(buffer).ok()?;
    str::from_utf8(&buffer[..count]).ok()
}

/// The most that it was since the process began, or since [`reset_peak`].
pub(crate) fn peak_bytes() -> u64 {
    bytes_of("/proc/self/status", "VmHWM:").unwrap_or(0)
}

/// Begins the peak anew.
pub(crate) fn reset_peak() -> Result<(), Failure> {
    std::fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| Failure::run(format!("cannot reset the peak of memory: {error}")))
}
