//! `sheaves doctor`, the completion scripts and the manual page.

use crate::stand_in::{sheaves, stand_in};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

#[test]
fn names_of_the_checks_are_stable() {
    let output = sheaves().args(["doctor", "--json"]).assert().success().get_output().clone();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema"], "sheaves-doctor/1");
    let checks = report["checks"].as_array().expect("an array");
    let names = checks.iter().map(|check| check["name"].as_str().expect("a name"));
    let names: Vec<_> = names.collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    kernel
    cpus
    glibc
    rseq
    mm_cid
    membarrier
    page-size
    transparent-huge-pages
    overcommit
    limit-as
    limit-data
    max-map-count
    cgroup-memory
    preload
    engine
    ");
}

#[test]
fn table_shows_the_object_and_the_engine_in_effect() {
    let path = stand_in().canonicalize().expect("a path").display().to_string();
    sheaves()
        .arg("doctor")
        .assert()
        .success()
        .stdout(contains(path).and(contains("portable, slots by virtual")));
}

/// The stand-in has the portable engine, whatever is asked for.
#[test]
fn engine_that_was_not_asked_for_is_explained() {
    let reason = |asked: &str| {
        let output = sheaves().arg("doctor").env("SHEAVES_ENGINE", asked).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).expect("UTF-8")
    };
    assert!(reason("portable").contains("SHEAVES_ENGINE selects it"));
    for asked in ["", "auto", "rseq", "rseq-cpu"] {
        let text = reason(asked);
        assert!(!text.contains("selects it") && text.contains("rseq is unavailable"), "{text}");
    }
}

#[test]
fn messages_of_the_linker_are_read() {
    let output = sheaves().arg("doctor").env("LD_DEBUG", "all").assert().success();
    let output = output.get_output();
    assert!(output.stderr.len() > 64 << 10, "{} bytes fill no pipe", output.stderr.len());
    assert!(String::from_utf8_lossy(&output.stdout).contains("OK    preload"));
}

#[test]
fn missing_object_fails() {
    sheaves()
        .args(["doctor", "--preload", "/nonexistent.so"])
        .assert()
        .code(1)
        .stdout(contains("FAIL  preload").and(contains("/nonexistent.so")));
}

#[test]
fn program_is_checked() {
    sheaves().args(["doctor", "true"]).assert().success().stdout(contains("can run on Sheaves"));
    sheaves().args(["doctor", "no-such"]).assert().code(1).stdout(contains("FAIL  program"));
    let named = contains("/nonexistent/?[2J").and(contains("\x1b").not());
    sheaves().args(["doctor", "/nonexistent/\x1b[2J"]).assert().code(1).stdout(named);
}

#[test]
fn address_space_limit_is_a_warning() {
    let command = assert_cmd::cargo::cargo_bin("sheaves");
    let script = format!("ulimit -v 900000; exec {} doctor", command.display());
    assert_cmd::Command::new("sh")
        .args(["-c", &script])
        .env("SHEAVES_PRELOAD", stand_in())
        .assert()
        .stdout(contains("WARN  limit-as"));
}

#[test]
fn pages_are_made_from_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = contains("sheaves").and(contains("_SHEAVES_COMPLETE"));
        sheaves().args(["completions", shell]).assert().success().stdout(script);
    }
    sheaves()
        .args(["--", "sheaves", "run", "ech"])
        .envs([("_SHEAVES_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", "2")])
        .assert()
        .success()
        .stdout(contains("echo"));
    sheaves()
        .arg("man")
        .assert()
        .success()
        .stdout(contains(".TH sheaves 1").and(contains("stats\\-file")).and(contains("doctor")))
        .stdout(contains("top [\\-\\-once]").or(contains("[\\-\\-interval SECONDS]")))
        .stdout(contains(".SH EXAMPLES").and(contains(".SH EXIT STATUS")))
        .stdout(contains("EXTRA").not().and(contains(".SH COLUMNS OF CACHES")));
    let folder = tempfile::tempdir().unwrap();
    sheaves().args(["man", "--directory"]).arg(folder.path()).assert().success();
    for page in ["sheaves.1", "sheaves-run.1", "sheaves-doctor.1", "sheaves-torture-rcu.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
    sheaves().args(["man", "--directory", "/dev/null/pages"]).assert().code(73);
}
