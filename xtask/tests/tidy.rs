//! The repository keeps the project's rules.

#[test]
fn repository_is_tidy() {
    let findings = xtask::tidy::run(xtask::repo::root()).expect("tidy runs");
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}
