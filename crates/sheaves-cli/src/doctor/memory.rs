//! Memory and its limits: page size, huge pages, overcommit, rlimits and control groups.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::report::Check;

/// With less address space than this the heap and its reservations may not start.
const ADDRESS_SPACE_MIN: u64 = 1 << 30;
/// The kernel's default; a heap that returns memory splits mappings.
const MAP_COUNT_DEFAULT: u64 = 65530;
/// A higher limit means "no limit": version 1 control groups write a huge number for it.
const NO_LIMIT: u64 = 1 << 60;

/// All checks of this module.
pub(crate) fn checks() -> Vec<Check> {
    vec![
        page_size(),
        huge_pages(),
        overcommit(),
        limit("limit-as", "RLIMIT_AS", Resource::As),
        limit("limit-data", "RLIMIT_DATA", Resource::Data),
        map_count(),
        control_group(),
    ]
}

fn page_size() -> Check {
    let bytes = rustix::param::page_size();
    let found = format!("{} KiB", bytes / 1024);
    if bytes <= 64 << 10 {
        Check::ok("page-size", found)
    } else {
        Check::warn("page-size", found, "slabs are 64 KiB; memory is returned in larger steps")
    }
}

fn huge_pages() -> Check {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let Ok(setting) = setting else {
        return Check::ok("transparent-huge-pages", "not in this kernel");
    };
    match chosen(&setting) {
        Some("always") => Check::warn(
            "transparent-huge-pages",
            "always",
            "small programs may use more memory; `madvise` leaves the choice to programs",
        ),
        other => Check::ok("transparent-huge-pages", other.unwrap_or("unknown")),
    }
}

/// The word in brackets.
fn chosen(setting: &str) -> Option<&str> {
    setting.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

fn overcommit() -> Check {
    match read_number("/proc/sys/vm/overcommit_memory") {
        Some(2) => Check::warn(
            "overcommit",
            "2 (never)",
            "memory counts before it is touched; raise vm.overcommit_ratio if malloc fails",
        ),
        Some(0) => Check::ok("overcommit", "0 (heuristic)"),
        Some(1) => Check::ok("overcommit", "1 (always)"),
        _ => Check::ok("overcommit", "unknown"),
    }
}

fn limit(name: &'static str, variable: &str, resource: Resource) -> Check {
    match getrlimit(resource).current {
        None => Check::ok(name, "unlimited"),
        Some(bytes) if bytes < ADDRESS_SPACE_MIN => Check::warn(
            name,
            bytes_text(bytes),
            format!("{variable} below 1 GiB: programs get ENOMEM early; see `ulimit`"),
        ),
        Some(bytes) => Check::ok(name, bytes_text(bytes)),
    }
}

fn map_count() -> Check {
    match read_number("/proc/sys/vm/max_map_count") {
        Some(count) if count < MAP_COUNT_DEFAULT => Check::warn(
            "max-map-count",
            count.to_string(),
            format!("set vm.max_map_count to {MAP_COUNT_DEFAULT} or more for large heaps"),
        ),
        Some(count) => Check::ok("max-map-count", count.to_string()),
        None => Check::ok("max-map-count", "unknown"),
    }
}

/// The lowest limit among the control group of this process and its ancestors.
fn control_group() -> Check {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let tightest = groups.lines().filter_map(mounted_group).flat_map(|(root, group, file)| {
        Path::new(&group)
            .ancestors()
            .map(|above| format!("{root}/{}/{file}", above.display().to_string().trim_matches('/')))
            .filter_map(|path| read_number(&path))
            .collect::<Vec<_>>()
    });
    match tightest.filter(|bytes| *bytes < NO_LIMIT).min() {
        Some(bytes) => Check::ok("cgroup-memory", format!("limited to {}", bytes_text(bytes))),
        None => Check::ok("cgroup-memory", "no limit"),
    }
}

/// Root, group and file name for one line of `/proc/self/cgroup`, if it controls memory.
fn mounted_group(line: &str) -> Option<(&'static str, String, &'static str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?);
    if controllers.is_empty() {
        Some(("/sys/fs/cgroup", group.to_owned(), "memory.max"))
    } else if controllers.split(',').any(|name| name == "memory") {
        Some(("/sys/fs/cgroup/memory", group.to_owned(), "memory.limit_in_bytes"))
    } else {
        None
    }
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// For humans: the largest unit that fits, with one decimal.
fn bytes_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in units {
        if bytes >= 1 << shift {
            let tenths = (u128::from(bytes) * 10) >> shift;
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
#[path = "../../tests/unit/doctor_memory.rs"]
mod tests;
