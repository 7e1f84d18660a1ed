//! Circles of modules, and the model checker outside `protocol/`.

use xtask::finding::Kind;

use crate::{assert_clean, assert_finds, file};

/// The circles in a crate with these files below its `src`: how many files each has.
fn circles(files: &[(&str, &str)]) -> Vec<(String, usize)> {
    let root = [("lib.rs", "mod a;\nmod b;\n")];
    let root = root.iter().filter(|(name, _)| files.iter().all(|(other, _)| other != name));
    let files: Vec<_> = root
        .chain(files)
        .map(|(name, text)| file(&format!("crates/new/src/{name}"), text))
        .collect();
    let findings = xtask::tidy::check_files(&files);
    let circles = findings.into_iter().filter_map(|finding| match finding.kind {
        Kind::Circle { files, .. } => Some((finding.file, files)),
        _ => None,
    });
    circles.collect()
}

fn circle_from(name: &str, files: usize) -> Vec<(String, usize)> {
    vec![(format!("crates/new/src/{name}"), files)]
}

#[test]
fn two_files_use_each_other() {
    let a = ("a.rs", "use crate::b::B;\npub struct A;\nfn f(_: B) {}\n");
    assert_eq!(circles(&[a, ("b.rs", "pub struct B;\nfn g() { crate::a::f() }\n")]), {
        circle_from("a.rs", 2)
    });
    assert_eq!(circles(&[a, ("b.rs", "pub struct B;\n")]), []);
}

#[test]
fn circle_of_three_by_way_of_the_parent() {
    let parent = ("a/mod.rs", "mod b;\nmod c;\nfn top() { b::B::new() }\npub fn low() {}\n");
    let b = ("a/b.rs", "use super::c::C;\npub struct B;\n");
    assert_eq!(circles(&[parent, b, ("a/c.rs", "pub struct C;\nfn h() { super::low() }\n")]), {
        circle_from("a/b.rs", 3)
    });
    assert_eq!(circles(&[parent, b, ("a/c.rs", "pub struct C;\nfn h() { low() }\n")]), []);
}

#[test]
fn reexports_are_followed_and_are_no_use() {
    let face = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::*;\n");
    let a = ("a.rs", "use crate::B;\npub struct A;\n");
    assert_eq!(circles(&[face, a, ("b.rs", "pub struct B;\n")]), []);
    assert_eq!(circles(&[face, a, ("b.rs", "use crate::A;\npub struct B;\n")]), {
        circle_from("a.rs", 2)
    });
    // A face that uses what its users are needed for.
    let face = ("a/mod.rs", "mod b;\npub use b::B;\nuse crate::c::C;\nfn f(_: C) {}\n");
    let files = |c| [face, ("a/b.rs", "pub struct B;\n"), ("c.rs", c)];
    assert_eq!(circles(&files("use crate::a::B;\npub struct C;\n")), circle_from("a/mod.rs", 2));
    assert_eq!(circles(&files("use crate::a::b::B;\npub struct C;\n")), []);
    // What a macro names is reached by the crate's face.
    assert_eq!(circles(&files("macro_rules! c {\n() => { $crate::a::B }\n}\npub struct C;\n")), []);
    // A name that the face itself uses.
    let face = ("lib.rs", "mod a;\npub use a::A;\npub const N: A = A;\n");
    assert_eq!(circles(&[face, ("a.rs", "pub struct A;\nconst M: u8 = crate::N;\n")]), {
        circle_from("a.rs", 2)
    });
}

#[test]
fn test_code_makes_no_circle() {
    let b = ("b.rs", "pub struct B;\n#[cfg(test)]\nmod checks {\n    use crate::a::A;\n}\n");
    assert_eq!(circles(&[("a.rs", "use crate::b::B;\npub struct A;\n"), b]), []);
    let root = ("lib.rs", "mod a;\n#[cfg(test)]\nmod b;\n");
    let b = ("b.rs", "use crate::a::A;\npub struct B;\n");
    assert_eq!(circles(&[root, ("a.rs", "use crate::b::B;\npub struct A;\n"), b]), []);
}

#[test]
fn loom_outside_protocol() {
    let text = "#[cfg(not(loom))]\nfn f() {}\n";
    let finding = [(1, Kind::ModelCheckerOutsideProtocol)];
    assert_finds("crates/sheaves-heap/src/large.rs", text, &finding);
    assert_finds("crates/sheaves-sys/src/lock.rs", text, &finding);
    assert_clean("crates/sheaves-heap/src/protocol/word.rs", text);
    assert_clean("crates/sheaves-heap/src/large.rs", "// loom\nconst A: &str = \"loom\";\n");
}
