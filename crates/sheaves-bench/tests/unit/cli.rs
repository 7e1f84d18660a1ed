//! Tests of `src/cli.rs`.

use super::*;

#[test]
fn an_unwritable_file_is_found_before_the_run() {
    let failure = create(std::path::Path::new("/proc/nonsense/report.json")).unwrap_err();
    assert_eq!(failure.status, 1);
    assert!(failure.message.contains("/proc/nonsense/report.json"));
}
