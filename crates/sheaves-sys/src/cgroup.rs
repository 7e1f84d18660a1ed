//! The memory limits of the process's control groups.
//!
//! Both versions are read: the limits of the group, and of all groups above it that are visible.
//! In a container the group is often the root of what is visible.

use core::ffi::CStr;
use core::fmt::Write as _;

use crate::process;
use crate::report::Line;

/// The process's groups cannot be read: there are none, or files cannot be opened any more.
#[derive(Debug)]
pub struct Unreadable;

/// The lowest limit in bytes: of `memory.max` and `memory.high`, or `memory.limit_in_bytes`. `None`
/// where there is none. Some ten system calls; never allocates.
///
/// # Errors
/// [`Unreadable`].
pub fn limit_bytes() -> Result<Option<u64>, Unreadable> {
    let mut buffer = [0; 4096];
    let groups = read(c"/proc/self/cgroup", &mut buffer).ok_or(Unreadable)?;
    Ok(limit_under("/sys/fs/cgroup", groups))
}

fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a str> {
    let used = process::read_file(path, buffer)?;
    core::str::from_utf8(&buffer[..used]).ok()
}

/// The lowest limit below `root`, for a process in `groups`: the text of `/proc/self/cgroup`.
fn limit_under(root: &str, groups: &str) -> Option<u64> {
    let limit = |(folder, files, group): (&str, &[&str], &str)| {
        let ends = group.match_indices('/').map(|(end, _)| end).chain([group.len()]);
        let above = ends.map(|end| &group[..end]);
        let limits = above.flat_map(|group| {
            files.iter().filter_map(move |file| number_in(root, folder, group, file))
        });
        limits.min()
    };
    groups.lines().filter_map(group_of).filter_map(limit).min()
}

/// Folder of the controller, the files with limits, and the group without a final slash.
fn group_of(line: &str) -> Option<(&str, &'static [&'static str], &str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?.trim_end_matches('/'));
    match controllers {
        "" => Some(("", &["memory.max", "memory.high"], group)),
        _ if controllers.split(',').any(|name| name == "memory") => {
            Some(("/memory", &["memory.limit_in_bytes"], group))
        }
        _ => None,
    }
}

/// The number in a file; `None` for `max`. Version 1 has a number of pages that no machine has.
fn number_in(root: &str, folder: &str, group: &str, file: &str) -> Option<u64> {
    let mut path = Line::new();
    write!(path, "{root}{folder}{group}/{file}\0").ok()?;
    // A path that is too long was truncated, with its terminator.
    let path = CStr::from_bytes_with_nul(path.as_bytes()).ok()?;
    let number: u64 = read(path, &mut [0; 64])?.trim_end().parse().ok()?;
    (number < 1 << 62).then_some(number)
}

#[cfg(test)]
#[path = "../tests/unit/cgroup.rs"]
mod tests;
