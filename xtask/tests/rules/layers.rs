//! The layer table against the crates.

use std::path::Path;

use xtask::finding::{Finding, Kind};
use xtask::repo::{Dependency, Package};

use crate::{assert_clean, assert_finds, file};

const TABLE: &str = "\
# Architecture
<!-- layers:begin -->
| crate | may use | what |
|---|---|---|
| `sheaves-cli` | all below | command |
| `sheaves-slab` | `sheaves-sys` | caches |
| `sheaves-percpu` | `sheaves-sys` | slots |
| `sheaves-sys` | | system |
<!-- layers:end -->
";

fn package(name: &str, dependencies: &[&str]) -> Package {
    let dependencies = dependencies.iter().map(|name| Dependency {
        name: (*name).into(),
        kind: None,
        target: None,
        optional: false,
    });
    Package {
        name: name.into(),
        manifest_path: format!("/repo/crates/{name}/Cargo.toml").into(),
        dependencies: dependencies.collect(),
        publish: None,
    }
}

/// The four crates of the table, with `slab` as given.
fn workspace(slab: Package) -> Vec<Package> {
    let percpu = package("sheaves-percpu", &["sheaves-sys", "libc"]);
    let cli = package("sheaves-cli", &["sheaves-slab", "sheaves-percpu", "clap"]);
    vec![cli, slab, percpu, package("sheaves-sys", &["libc"])]
}

fn check(table: &str, packages: &[Package]) -> Vec<Finding> {
    let manifest = "[dependencies]\nlibc = \"1\"\nsheaves-cli.workspace = true\n";
    let files = [file("ARCHITECTURE.md", table), file("crates/sheaves-slab/Cargo.toml", manifest)];
    xtask::tidy::check_layers(Path::new("/repo"), &files, packages)
}

#[track_caller]
fn assert_kinds(table: &str, packages: &[Package], expected: &[Kind]) {
    let kinds: Vec<_> = check(table, packages).into_iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, expected);
}

fn slab(dependencies: &[&str]) -> Vec<Package> {
    workspace(package("sheaves-slab", dependencies))
}

fn edge(from: &str, to: &str) -> (String, String) {
    (from.into(), to.into())
}

#[test]
fn kept() {
    assert_kinds(TABLE, &slab(&["sheaves-sys", "libc"]), &[]);
}

#[test]
fn table_missing() {
    assert_kinds("# Architecture\n", &[], &[Kind::LayerTableMissing]);
    let empty = "<!-- layers:begin -->\n<!-- layers:end -->\n";
    assert_kinds(empty, &[], &[Kind::LayerTableMissing]);
}

#[test]
fn table_and_crates_differ() {
    let unknown = Kind::LayerUnknownCrate { name: "sheaves-slab".into() };
    let without_slab: Vec<_> =
        slab(&[]).into_iter().filter(|package| package.name != "sheaves-slab").collect();
    assert_kinds(TABLE, &without_slab, &[unknown]);
    let mut more = slab(&[]);
    more.push(package("sheaves-rcu", &[]));
    assert_kinds(TABLE, &more, &[Kind::LayerMissingCrate { name: "sheaves-rcu".into() }]);
}

#[test]
fn table_contradicts_itself() {
    let row = "| `sheaves-slab` | `sheaves-sys` | caches |";
    let twice = TABLE.replace(row, &format!("{row}\n{row}"));
    assert_kinds(&twice, &slab(&[]), &[Kind::LayerRowTwice { name: "sheaves-slab".into() }]);
    let bad = TABLE.replace(row, "| sheaves-slab | | caches |");
    let kinds: Vec<_> = check(&bad, &slab(&[])).into_iter().map(|finding| finding.kind).collect();
    assert!(matches!(kinds[0], Kind::LayerRowMalformed { .. }), "{kinds:?}");
    let upward = TABLE.replace(row, "| `sheaves-slab` | `sheaves-cli` | caches |");
    let (from, to) = edge("sheaves-slab", "sheaves-cli");
    assert_kinds(&upward, &slab(&[]), &[Kind::LayerListsUpward { from, to }]);
}

#[test]
fn edge_upward_with_its_line() {
    let findings = check(TABLE, &slab(&["sheaves-cli"]));
    let (from, to) = edge("sheaves-slab", "sheaves-cli");
    let expected = Finding {
        file: "crates/sheaves-slab/Cargo.toml".into(),
        line: 3,
        kind: Kind::EdgeUpward { from, to },
    };
    assert_eq!(findings, [expected]);
    let (from, to) = edge("sheaves-slab", "sheaves-slab");
    assert_kinds(TABLE, &slab(&["sheaves-slab"]), &[Kind::EdgeUpward { from, to }]);
}

#[test]
fn edge_not_listed() {
    let (from, to) = edge("sheaves-slab", "sheaves-percpu");
    assert_kinds(TABLE, &slab(&["sheaves-percpu"]), &[Kind::EdgeNotListed { from, to }]);
}

#[test]
fn edge_to_the_house_tools() {
    let mut packages = slab(&["xtask"]);
    let mut tools = package("xtask", &["syn"]);
    tools.manifest_path = "/repo/xtask/Cargo.toml".into();
    packages.push(tools);
    let (from, to) = edge("sheaves-slab", "xtask");
    assert_kinds(TABLE, &packages, &[Kind::EdgeToOutsider { from, to }]);
}

#[test]
fn external_dependency() {
    let (from, to) = edge("sheaves-slab", "smallvec");
    assert_kinds(TABLE, &slab(&["smallvec"]), &[Kind::ExternalDependency { from, to }]);
    let [mut with, mut other] =
        [package("sheaves-slab", &["serde"]), package("sheaves-slab", &["smallvec"])];
    with.dependencies[0].optional = true;
    assert_kinds(TABLE, &workspace(with), &[]);
    other.dependencies[0].optional = true;
    let (from, to) = edge("sheaves-slab", "smallvec");
    assert_kinds(TABLE, &workspace(other), &[Kind::ExternalDependency { from, to }]);
    let mut of_tests = package("sheaves-slab", &["proptest", "sheaves-cli"]);
    for dependency in &mut of_tests.dependencies {
        dependency.kind = Some("dev".into());
    }
    assert_kinds(TABLE, &workspace(of_tests), &[]);
}

#[test]
fn model_checker() {
    let (from, to) = edge("sheaves-slab", "loom");
    assert_kinds(TABLE, &slab(&["loom"]), &[Kind::ModelCheckerWithoutCfg { from, to }]);
    let mut under_cfg = package("sheaves-slab", &["loom"]);
    under_cfg.dependencies[0].target = Some("cfg(loom)".into());
    assert_kinds(TABLE, &workspace(under_cfg), &[]);
}

#[test]
fn folder_name() {
    let mut moved = package("sheaves-slab", &[]);
    moved.manifest_path = "/repo/crates/slab/Cargo.toml".into();
    let finding = Kind::FolderName { folder: "crates/slab".into(), name: "sheaves-slab".into() };
    assert_kinds(TABLE, &workspace(moved), &[finding]);
}

#[test]
fn file_of_another_crate() {
    let finding = |target: &str| vec![(1, Kind::ForeignFile { target: target.to_owned() })];
    let module = |path: &str| format!("#[path = \"{path}\"]\nmod m;\n");
    let foreign = module("../../sheaves-rcu/src/protocol/owner.rs");
    let target = "crates/sheaves-rcu/src/protocol/owner.rs";
    assert_finds("crates/sheaves-history/src/a.rs", &foreign, &finding(target));
    assert_finds("crates/sheaves-history/tests/a.rs", &foreign, &finding(target));
    assert_clean("crates/sheaves-rcu/tests/a.rs", &module("../src/protocol/owner.rs"));
    assert_clean("crates/sheaves-rcu/src/a.rs", &module("b.rs"));
    assert_clean("crates/sheaves/tests/a.rs", &module("../../sheaves-rcu/tests/models/run.rs"));
    let standalone = module("../../sheaves-preload/src/standalone.rs");
    assert_clean("crates/sheaves-capi/src/lib.rs", &format!("#![no_std]\n{standalone}"));
}
