//! Tests of private items of `options/environment`.

extern crate std;

use std::borrow::ToOwned;
use std::ffi::CString;
use std::string::String;
use std::vec::Vec;

use super::*;

/// What is visited in a file with these bytes.
fn visited(name: &str, bytes: &[u8]) -> Vec<String> {
    let path = std::env::temp_dir().join(std::format!("environ-{name}-{}", process::id()));
    std::fs::write(&path, bytes).unwrap();
    let mut seen = Vec::new();
    let file = CString::new(path.to_str().unwrap()).unwrap();
    let is_read = each_in_file(&file, &mut |variable| {
        seen.push(String::from_utf8(variable.to_vec()).unwrap());
    });
    std::fs::remove_file(path).unwrap();
    assert!(is_read);
    seen
}

#[test]
fn only_names_with_the_prefix_are_visited() {
    assert_eq!(split(b"SHEAVES_X=1=2"), Some(("SHEAVES_X", &b"1=2"[..])));
    assert_eq!(split(b"SHEAVES_X="), Some(("SHEAVES_X", &b""[..])));
    for text in [&b"SHEAVES_X"[..], b"SHEAVES=1", b"XSHEAVES_=1", b"=SHEAVES_X=1", b""] {
        assert_eq!(split(text), None, "{text:?}");
    }
}

#[test]
fn a_file_of_any_length_is_visited_to_its_end() {
    assert!(visited("empty", b"").is_empty());
    assert_eq!(visited("cut", b"A=1\0B=2"), ["A=1"]);
    let many: Vec<_> = (0..5000).map(|number| std::format!("VARIABLE_{number}={number}")).collect();
    let text = many.iter().map(|text| text.to_owned() + "\0").collect::<String>();
    assert!(text.len() > 3 * VARIABLE_BYTES_MAX);
    assert_eq!(visited("many", text.as_bytes()), many);
}

/// One that is as long as the buffer, or longer, is left out, and those after it are not.
#[test]
fn a_long_variable_hides_no_other() {
    for bytes in (VARIABLE_BYTES_MAX - 4..VARIABLE_BYTES_MAX + 4).chain([100_000]) {
        let long = "x".repeat(bytes);
        let seen = visited("long", std::format!("A=1\0{long}\0B=2\0C=3\0").as_bytes());
        let others: Vec<_> = seen.iter().filter(|text| **text != long).collect();
        assert_eq!(others, ["A=1", "B=2", "C=3"], "{bytes}");
        assert!(bytes >= VARIABLE_BYTES_MAX || seen.len() == 4, "{bytes}");
    }
}

#[test]
fn both_sources_have_the_environment() {
    let mut found = false;
    let is_path = |variable: &[u8]| variable.starts_with(b"PATH=");
    assert!(each_in_file(c"/proc/self/environ", &mut |variable| found |= is_path(variable)));
    assert!(found);
    assert!(each(|name, _| assert!(name.starts_with(PREFIX))));
}
