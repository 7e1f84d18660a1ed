//! Tests of private items of `cgroup`.

extern crate std;

use std::fs;
use std::path::PathBuf;
use std::string::String;

use super::*;

/// A folder of groups, removed at the end.
struct Groups(PathBuf);

impl Groups {
    fn new(name: &str) -> Groups {
        let folder = std::env::temp_dir().join(std::format!("cgroup-{name}-{}", process::id()));
        Groups(folder)
    }

    fn set(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn limit(&self, groups: &str) -> Option<u64> {
        limit_under(self.0.to_str().unwrap(), groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn version_2_has_the_lowest_of_both_files_and_all_groups_above() {
    let groups = Groups::new("v2");
    groups.set("memory.stat", "");
    assert_eq!(groups.limit("0::/a/b\n"), None);
    groups.set("a/b/memory.max", "max\n");
    groups.set("a/b/memory.high", "max\n");
    assert_eq!(groups.limit("0::/a/b\n"), None);
    groups.set("a/b/memory.max", "3000\n");
    assert_eq!(groups.limit("0::/a/b\n"), Some(3000));
    groups.set("a/memory.max", "2000\n");
    assert_eq!(groups.limit("0::/a/b\n"), Some(2000));
    groups.set("a/b/memory.high", "1000\n");
    assert_eq!(groups.limit("0::/a/b\n"), Some(1000));
    // Another group, and the root of a container.
    assert_eq!(groups.limit("0::/c\n"), None);
    groups.set("memory.max", "500\n");
    assert_eq!(groups.limit("0::/\n"), Some(500));
    assert_eq!(groups.limit("0::/not/visible/here\n"), Some(500));
}

#[test]
fn version_1_has_one_file_in_the_controllers_folder() {
    let groups = Groups::new("v1");
    let text = "12:cpu,cpuacct:/a\n11:memory:/a/b\n1:name=systemd:/x\n0::/x\n";
    groups.set("memory/memory.limit_in_bytes", "9223372036854771712\n");
    groups.set("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    assert_eq!(groups.limit(text), None);
    groups.set("memory/a/memory.limit_in_bytes", "4096\n");
    assert_eq!(groups.limit(text), Some(4096));
    groups.set("x/memory.max", "100\n");
    assert_eq!(groups.limit(text), Some(100));
}

#[test]
fn what_makes_no_sense_is_no_limit() {
    let groups = Groups::new("bad");
    groups.set("a/memory.max", "lots\n");
    groups.set("a/memory.high", "-1\n");
    for text in ["", "0::", "0::/a\n", "::\n", "0\n", "11:memory\n", "0::/a\u{0}b\n"] {
        assert_eq!(groups.limit(text), None, "{text:?}");
    }
    let long: String = "/a".repeat(3000);
    assert_eq!(groups.limit(&std::format!("0::{long}\n")), None);
}
