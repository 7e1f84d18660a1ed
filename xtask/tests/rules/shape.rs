//! Length of functions, names that mean nothing, tests between code.

use xtask::finding::Kind;

use crate::{LIBRARY, TOOL, assert_clean, assert_finds, findings_in, steps};

fn function(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", steps("step", 2..lines))
}

#[test]
fn function_too_long() {
    assert_clean(LIBRARY, &function(70));
    let finding = Kind::FunctionTooLong { name: "long".into(), lines: 71, lines_max: 70 };
    assert_finds(LIBRARY, &function(71), &[(1, finding.clone())]);
    assert_finds(TOOL, &function(71), &[(1, finding.clone())]);
    // Inside a macro there are only tokens.
    let in_macro = format!("macro_rules! make {{\n() => {{\n{}}}\n}}\n", function(71));
    assert_finds(LIBRARY, &in_macro, &[(3, finding)]);
}

#[test]
fn function_without_body() {
    let text = format!("trait T {{\nfn short();\n}}\n{}", function(60));
    let other = function(60).replace("step", "other");
    assert_clean(LIBRARY, &format!("{text}type F = fn(u8);\n{other}"));
}

#[test]
fn does_not_parse() {
    let kinds = findings_in(LIBRARY, "fn broken( {\n");
    assert!(matches!(kinds.as_slice(), [(1, Kind::DoesNotParse { .. })]), "{kinds:?}");
    let kinds = findings_in(LIBRARY, "\nfn fn fn {}\n");
    assert!(matches!(kinds.as_slice(), [(2, Kind::DoesNotParse { .. })]), "{kinds:?}");
}

fn banned(name: &str, word: &'static str) -> Kind {
    Kind::BannedName { name: name.into(), word }
}

#[test]
fn banned_names_in_code() {
    assert_finds(LIBRARY, "mod util {}\n", &[(1, banned("util", "util"))]);
    assert_finds(LIBRARY, "fn helper() {}\n", &[(1, banned("helper", "helper"))]);
    assert_finds(LIBRARY, "fn push_helpers() {}\n", &[(1, banned("push_helpers", "helpers"))]);
    assert_finds(LIBRARY, "struct SlabManager;\n", &[(1, banned("SlabManager", "manager"))]);
    assert_finds(LIBRARY, "fn push_impl2() {}\n", &[(1, banned("push_impl2", "impl2"))]);
    assert_finds(
        LIBRARY,
        "macro_rules! m {\n() => { fn utils() {} }\n}\n",
        &[(2, banned("utils", "utils"))],
    );
    assert_clean(
        LIBRARY,
        "// A helper of the manager.\nfn utilisation() { let utils = \"util\"; }\n",
    );
}

#[test]
fn banned_names_of_files() {
    assert_finds("crates/sheaves/src/utils.rs", "", &[(1, banned("utils.rs", "utils"))]);
    assert_finds("tests/helpers/run.sh", "", &[(1, banned("helpers", "helpers"))]);
    assert_clean("docs/utility.md", "");
}

#[test]
fn tests_between_code() {
    let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n}\n";
    assert_finds(LIBRARY, text, &[(3, Kind::InlineTests)]);
    assert_finds(TOOL, text, &[(3, Kind::InlineTests)]);
    assert_clean("crates/sheaves-slab/tests/a.rs", text);
    assert_clean(LIBRARY, "#[cfg(test)]\n#[path = \"../tests/unit/a.rs\"]\nmod tests;\n");
}
