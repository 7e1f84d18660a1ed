//! Guarded RCU in C: the report of a late reader names the three stacks, and the read section.

use core::time::Duration;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use crate::urcu::{FLAVORS, include};
use crate::{ENGINES, Link, compile, run};

const LIMIT: Duration = Duration::from_secs(60);
const FLAGS: [&str; 3] = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-rdynamic"];

#[track_caller]
fn reports(program: &Path, call: &str, words: &[&str]) {
    for engine in ENGINES {
        let variables = [engine, &[("SHEAVES_GUARD", "1/1"), ("SHEAVES_PROF", "1024")]].concat();
        let output = run(program, &[call], &variables, LIMIT);
        assert_eq!(output.status.signal(), Some(11), "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        let mut rest = &*errors;
        for wanted in words {
            let found = rest.split_once(wanted);
            rest = found.unwrap_or_else(|| panic!("{wanted:?} is not there in:\n{errors}")).1;
        }
    }
}

const LATE: &str = "guard: use after the grace period: read of 0x";
const IN_SECTION: &str = "ms ago, after the block was deferred";

#[test]
fn late_readers_are_reported() {
    for link in [Link::Shared, Link::Archive] {
        let program = compile("gcc", "tests/c_api/guard.c", &FLAGS, link);
        let begin = [LATE, "read_late", "main", IN_SECTION, "allocated", "make_node", "main"];
        let deferred = [&begin[..], &["deferred", "defer_node", "main"]].concat();
        reports(&program, "free", &[&deferred[..], &["its grace period was over"]].concat());
        for call in ["call", "hurry", "srcu"] {
            reports(&program, call, &[&deferred[..], &["freed", "free_node"]].concat());
        }
        reports(&program, "head", &[&deferred[..], &["freed"]].concat());
        reports(&program, "outside", &[LATE, "read_late", "is in no RCU read section"]);
    }
}

#[test]
fn late_readers_of_each_flavor_are_reported() {
    for (header, more) in FLAVORS {
        let (include, header) = (include(), format!("-DFLAVOR_HEADER=<{header}>"));
        let flags = [&FLAGS, more, &[include.as_str(), header.as_str()]].concat();
        let program = compile("gcc", "tests/c_api/guard.c", &flags, Link::Shared);
        let words = [
            LATE,
            "read_late",
            "main",
            IN_SECTION,
            "allocated",
            "make_node",
            "deferred",
            "defer_node",
            "freed",
            "free_node",
        ];
        for call in ["call", "defer"] {
            reports(&program, call, &words);
        }
    }
}
