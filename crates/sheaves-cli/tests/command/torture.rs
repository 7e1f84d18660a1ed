//! `sheaves torture`: exit status, one line for each failure, and the JSON form.

use crate::stand_in::sheaves;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::{contains, is_empty};

#[test]
fn run_is_reported_as_json() {
    let output = sheaves()
        .args(["torture", "rcu", "--seconds", "3", "--json"])
        .assert()
        .success()
        .stderr(is_empty())
        .get_output()
        .clone();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&report["schema"], &report["subject"]),
        (&"sheaves-torture/1".into(), &"rcu".into())
    );
    assert!(report["updates"]["synchronize"].as_u64() > Some(0));
    assert!(report["oldest"].as_u64() <= report["oldest_allowed"].as_u64());
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(0));
}

#[test]
fn lost_report_has_a_line_and_a_status() {
    for words in [&["--json"][..], &[]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
        let child = std::process::Command::new(assert_cmd::cargo::cargo_bin("sheaves"))
            .args(["torture", "reclaim", "--seconds", "1"])
            .args(words)
            .stdout(full)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("runs");
        let output = child.wait_with_output().expect("ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(74), "{errors}");
        assert!(
            errors.starts_with("sheaves: torture reclaim: cannot write to stdout: "),
            "{errors}"
        );
    }
}

/// The status says what the lines would have.
#[test]
fn lines_that_cannot_be_written_change_no_status() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
    for (words, status) in [
        (&["torture", "reclaim", "--seconds", "1"][..], 74),
        (&["bench", "no-such-table"], 2),
        (&["stat", "no-such-process"], 67),
    ] {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
        let ended = command.args(words).stdout(full()).stderr(full()).status().expect("runs");
        assert_eq!(ended.code(), Some(status), "{words:?}");
    }
}

#[test]
fn seeded_defect_is_found_and_named() {
    sheaves()
        .args(["torture", "rcu", "--seconds", "100", "--broken", "published"])
        .assert()
        .code(1)
        .stderr(contains("sheaves: torture rcu: FAILED: "))
        .stdout(contains("oldest generation that a reader saw: "));
}

/// Other tests run commands of this name, too.
#[test]
fn running_torture_has_a_name() {
    let mut torture = std::process::Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
    let mut torture = torture.args(["torture", "rcu", "--seconds", "100"]).spawn().expect("runs");
    let asked = sheaves().args(["stat", "sheaves"]).assert();
    torture.kill().expect("killed");
    torture.wait().expect("reaped");
    asked.stderr(contains("no process has the name").not());
}

#[test]
fn reclamation_is_reported_as_json() {
    let output = sheaves()
        .args(["torture", "reclaim", "--seconds", "1", "--json", "--fail-one-in", "500"])
        .assert()
        .success()
        .get_output()
        .clone();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&report["schema"], &report["subject"]),
        (&"sheaves-torture/1".into(), &"reclaim".into())
    );
    assert!(report["paths"]["call_rcu"]["freed"].as_u64() > Some(0));
    assert_eq!(report["paths"]["call_rcu"]["deferred"], report["paths"]["call_rcu"]["freed"]);
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(0));
}

#[test]
fn missing_subject_is_a_usage_error() {
    sheaves().arg("torture").assert().code(2);
    sheaves().args(["torture", "rcu", "--seconds", "0"]).assert().code(2);
}
