//! `sheaves torture`: exit status, one line for each failure, and the JSON form.

use crate::stand_in::sheaves;
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
fn seeded_defect_is_found_and_named() {
    sheaves()
        .args(["torture", "rcu", "--seconds", "100", "--broken", "published"])
        .assert()
        .code(1)
        .stderr(contains("sheaves: torture rcu: FAILED: "))
        .stdout(contains("oldest generation that a reader saw: "));
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
