//! What the kernel tells about memory.

use super::Failure;

/// Bytes that a field of a file under `/proc` says in KiB; none where the kernel does not tell.
pub(crate) fn bytes_of(file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Resident memory of the process; 0 where the kernel does not tell.
pub(crate) fn resident_bytes() -> u64 {
    bytes_of("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// The most that it was since the process began, or since [`reset_peak`].
pub(crate) fn peak_bytes() -> u64 {
    bytes_of("/proc/self/status", "VmHWM:").unwrap_or(0)
}

/// Has the peak begin anew.
pub(crate) fn reset_peak() -> Result<(), Failure> {
    std::fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| Failure::run(format!("cannot reset the peak of memory: {error}")))
}
