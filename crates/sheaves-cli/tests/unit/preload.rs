//! Tests of `src/preload.rs`.

use super::*;

/// An object that defines `malloc`: libc.
pub(crate) fn object() -> Preload {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
    let mut paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let libc = paths.find(|path| path.contains("/libc.so.6")).expect("linked to libc");
    Preload::find(Some(Path::new(libc))).expect("libc will do")
}

#[test]
fn existing_list_follows_ours() {
    let object = object();
    let path = object.path.display().to_string();
    assert_eq!(object.list(None), OsString::from(&path));
    assert_eq!(object.list(Some(OsStr::new(""))), OsString::from(&path));
    assert_eq!(
        object.list(Some(OsStr::new("libother.so libthird.so"))),
        OsString::from(format!("{path}:libother.so libthird.so"))
    );
}

#[test]
fn object_that_cannot_be_preloaded_is_named() {
    let absent = Preload::find(Some(Path::new("/nonexistent/x.so"))).expect_err("absent");
    assert!(absent.starts_with("preload object /nonexistent/x.so: No such file"), "{absent}");
    let text = Preload::find(Some(Path::new("/proc/self/status"))).expect_err("text");
    assert!(text.ends_with("not an ELF file"), "{text}");
    let this = env::current_exe().expect("a path");
    let without = Preload::find(Some(&this)).expect_err("without malloc");
    assert!(without.ends_with("it does not define malloc: name another"), "{without}");
}
