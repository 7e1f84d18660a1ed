//! The system's memory pressure, which the reclaimer reads if `SHEAVES_RCU_PRESSURE=1` is set.
//!
//! While something is deferred, it reads two numbers: how long tasks have waited for memory so far
//! (`/proc/pressure/memory`, Linux 4.20), and how often the process's control group has reached its
//! limits `memory.high` and `memory.max` (`memory.events`, version 2). If one of them has grown, it
//! does not wait for the age bound. This matters with a bound of seconds, hardly with the default.

use core::ffi::CStr;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::process;
use sheaves_sys::report::Line;

use crate::options;

/// Time between two reads.
const LOOK_MS: u64 = 100;

/// Where control groups of version 2 are mounted: alone, or beside those of version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Both numbers at the last read, the first one in microseconds. Written by the reclaimer.
static TOTAL: AtomicU64 = AtomicU64::new(0);
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// True if one of the numbers has grown since the last read. For the reclaimer.
pub(super) fn is_short() -> bool {
    if !options::reads_psi() {
        return false;
    }
    let total = read(c"/proc/pressure/memory", &mut [0; 256]).and_then(total_us).unwrap_or(0);
    let events = read_events().unwrap_or(0);
    // Relaxed, both: only the reclaimer uses them.
    let has_waited = TOTAL.swap(total, Ordering::Relaxed) < total;
    EVENTS.swap(events, Ordering::Relaxed) < events || has_waited
}

fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a str> {
    let used = process::read_file(path, buffer)?;
    core::str::from_utf8(&buffer[..used]).ok()
}

fn read_events() -> Option<u64> {
    let mut buffer = [0; 1024];
    let group = group_of(read(c"/proc/self/cgroup", &mut buffer)?)?;
    MOUNTS.iter().find_map(|mount| {
        let mut path = Line::new();
        write!(path, "{mount}{group}/memory.events\0").ok()?;
        // A path that is too long was truncated, with its terminator.
        let path = CStr::from_bytes_with_nul(path.as_bytes()).ok()?;
        read(path, &mut [0; 256]).map(events)
    })
}

/// How long the reclaimer may sleep before the next read.
pub(super) fn patience_ms(left_ms: u64) -> u64 {
    if options::reads_psi() { left_ms.min(LOOK_MS) } else { left_ms }
}

/// The number after `total=` in the first line, the one of `some`.
fn total_us(text: &str) -> Option<u64> {
    let mut words = text.lines().next()?.strip_prefix("some ")?.split(' ');
    words.find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// The path of the group, without a final slash: from the line of version 2.
fn group_of(text: &str) -> Option<&str> {
    let group = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(group.trim_end_matches('/'))
}

/// How often the group has reached `memory.high` and `memory.max`.
fn events(text: &str) -> u64 {
    let count = |line: &str| {
        line.strip_prefix("high ").or_else(|| line.strip_prefix("max "))?.parse::<u64>().ok()
    };
    text.lines().filter_map(count).sum()
}

#[cfg(test)]
#[path = "../../tests/unit/psi.rs"]
mod tests;
