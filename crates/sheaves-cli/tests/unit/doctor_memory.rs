//! Tests of `src/doctor/memory.rs`.

use super::*;

#[test]
fn bracketed_word_is_the_setting() {
    assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
    assert_eq!(chosen("always madvise"), None);
}

#[test]
fn both_versions_of_control_groups_are_known() {
    let unified = mounted_group("0::/user.slice").expect("unified");
    assert_eq!(unified, ("/sys/fs/cgroup", "/user.slice".to_owned(), "memory.max"));
    let first = mounted_group("5:memory:/a:b").expect("first kind");
    assert_eq!((first.1.as_str(), first.2), ("/a:b", "memory.limit_in_bytes"));
    assert_eq!(mounted_group("4:cpu,cpuacct:/x"), None);
}

#[test]
fn sizes_are_written_with_one_decimal() {
    assert_eq!(bytes_text(1536 << 20), "1.5 GiB");
    assert_eq!(bytes_text(4096), "4.0 KiB");
    assert_eq!(bytes_text(12), "12 B");
}
