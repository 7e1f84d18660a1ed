//! The memory limits of the process's control groups.
//!
//! Both versions are read: the limits of the group, and of all groups above it that are visible.
//! In a container the group is often the root of what is visible.

use crate::process;

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
    let used = process::read_file(c"/proc/self/cgroup", &mut buffer).ok_or(Unreadable)?;
    let groups = core::str::from_utf8(&buffer[..used]).map_err(|_| Unreadable)?;
    Ok(limit_under("/sys/fs/cgroup", groups))
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
    let mut text = [0; 64];
    let path = format_args!("{root}{folder}{group}/{file}");
    let used = process::read_file_at(path, &mut text)?;
    let number: u64 = core::str::from_utf8(&text[..used]).ok()?.trim_end().parse().ok()?;
    (number < 1 << 62).then_some(number)
}

#[cfg(test)]
#[path = "../tests/unit/cgroup.rs"]
mod tests;
