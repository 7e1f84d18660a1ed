//! The table `cxx`, whose contenders run in a program in C++ on the C library of Sheaves.

#[expect(dead_code, reason = "shared with tests that use all of it")]
#[path = "../../sheaves-preload/tests/preload/c_programs.rs"]
mod c_programs;

use std::process::Command;

#[test]
fn every_contender_in_cxx_takes_samples() {
    c_programs::build("sheaves-capi");
    let output = Command::new(env!("CARGO_BIN_EXE_sheaves-bench"))
        .args(["cxx", "--quick"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for row in ["retire", "readers", "list", "map", "unordered_map"] {
        assert!(text.contains(&format!("cxx/{row}")), "{text}");
    }
    for contender in ["rcu_retire", "c-call", "rcu_obj_base", "rcu_domain", "allocator", "pmr"] {
        assert!(text.contains(contender), "{contender} is missing in\n{text}");
    }
}
