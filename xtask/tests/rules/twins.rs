//! Code that occurs twice in library crates.

use xtask::finding::{Finding, Kind};

use crate::{LIBRARY, TOOL, file};

const OTHER: &str = "crates/sheaves-heap/src/large.rs";
const ENTRY: &str =
    "crates/sheaves-heap/src/large.rs#second crates/sheaves-slab/src/depot.rs#first";

/// A function whose body has the steps `from..to`.
fn steps(name: &str, from: usize, to: usize) -> String {
    format!("fn {name}() {{\n{}}}\n", crate::steps("step", from..to))
}

/// The findings of the rule in two library files, and the list of what is explained.
fn twins(text: &str, other: &str, list: &str) -> Vec<(String, usize, Kind)> {
    let files = [file(OTHER, other), file(LIBRARY, text), file("xtask/twins.txt", list)];
    let findings = xtask::tidy::check_files(&files).into_iter();
    findings.map(|Finding { file, line, kind }| (file, line, kind)).collect()
}

fn twin(line: usize, other_line: usize) -> Vec<(String, usize, Kind)> {
    let other = format!("{LIBRARY}:{other_line}");
    vec![(OTHER.to_owned(), line, Kind::Twin { other, entry: ENTRY.to_owned() })]
}

#[test]
fn six_equal_lines_are_found() {
    assert_eq!(twins(&steps("first", 0, 6), &steps("second", 0, 6), ""), twin(2, 2));
    assert_eq!(twins(&steps("first", 0, 9), &steps("second", 2, 9), ""), twin(2, 4));
    assert_eq!(twins(&steps("first", 0, 6), &steps("second", 0, 5), ""), []);
    assert_eq!(twins(&steps("first", 0, 6), &steps("second", 6, 12), ""), []);
}

#[test]
fn white_space_and_comments_are_not_compared() {
    let spaced = steps("second", 0, 6).replace(",  ", ", ").replace("    ", "\n  // Why.\n  ");
    assert_eq!(twins(&steps("first", 0, 6), &spaced, ""), twin(4, 2));
    let attributed = steps("second", 0, 6).replace("    ", "#[expect(a, reason = \"b\")]\n");
    assert_eq!(twins(&steps("first", 0, 6), &attributed, ""), twin(3, 2));
}

#[test]
fn one_file_has_twins_too_but_none_of_itself() {
    let text = format!("{}{}", steps("first", 0, 6), steps("second", 0, 6));
    let [(_, 2, Kind::Twin { other, .. })] = &twins(&text, "", "")[..] else { panic!() };
    assert_eq!(*other, format!("{LIBRARY}:10"));
    let text = format!("fn f() {{\n{}}}\n", "    step();\n".repeat(11));
    assert_eq!(twins(&text, "", ""), []);
    let text = format!("fn f() {{\n{}}}\n", "    step();\n".repeat(12));
    assert_eq!(twins(&text, "", "").len(), 1);
}

#[test]
fn imports_signatures_brackets_and_tests_do_not_count() {
    let imports: String = (0..9).map(|n| format!("pub use a::b{n};\n")).collect();
    assert_eq!(twins(&imports, &imports, ""), []);
    let signatures: String = (0..9).map(|n| format!("    unsafe fn f{n}();\n")).collect();
    let signatures = format!("trait T {{\n{signatures}}}\n");
    assert_eq!(twins(&signatures, &signatures, ""), []);
    let spread = "fn f(\n    a: u8,\n    b: u8,\n    c: u8,\n    d: u8,\n    e: u8,\n) {\n}\n";
    assert_eq!(twins(spread, spread, ""), []);
    let brackets = "fn f() {\n    if a {\n        {\n        }\n    }\n    {\n    }\n}\n";
    assert_eq!(twins(brackets, brackets, ""), []);
    let tests = format!("#[cfg(test)]\nmod checks {{\n{}}}\n", steps("first", 0, 9));
    assert_eq!(twins(&tests, &tests, ""), []);
    let files = [file(TOOL, &steps("a", 0, 9)), file("xtask/src/a.rs", &steps("a", 0, 9))];
    assert_eq!(xtask::tidy::check_files(&files), []);
}

#[test]
fn explained_twins_stay() {
    let (text, other) = (steps("first", 0, 6), steps("second", 0, 6));
    assert_eq!(twins(&text, &other, &format!("# Why.\n{ENTRY}: two machines\n")), []);
    let at_list = |line, kind| ("xtask/twins.txt".to_owned(), line, kind);
    for unexplained in [ENTRY.to_owned(), format!("{ENTRY}:")] {
        let findings = twins(&text, &other, &format!("{unexplained}\n"));
        assert_eq!(findings, [twin(2, 2), vec![at_list(1, Kind::TwinUnexplained)]].concat());
    }
    let gone = at_list(2, Kind::TwinGone { entry: ENTRY.to_owned() });
    assert_eq!(twins(&text, "", &format!("# Why.\n{ENTRY}: two machines\n")), [gone]);
}
