//! Orderings name their partners.

use xtask::finding::Kind;

use crate::{LIBRARY, TOOL, assert_clean, assert_finds, steps};

fn partner(ordering: &str) -> Kind {
    Kind::OrderingWithoutPartner { ordering: ordering.into() }
}

#[test]
fn paired_without_comment() {
    for ordering in ["Acquire", "Release", "AcqRel", "SeqCst"] {
        let text = format!("fn f() {{\n    a.load(Ordering::{ordering});\n}}\n");
        assert_finds(LIBRARY, &text, &[(2, partner(ordering))]);
        assert_clean(TOOL, &text);
        let commented =
            format!("fn f() {{\n    // {ordering}: see `g`.\n    a(Ordering::{ordering});\n}}\n");
        assert_clean(LIBRARY, &commented);
    }
    assert_clean(LIBRARY, "fn f() {\n    a(Ordering::Acquire); // It pairs with `g`.\n}\n");
}

#[test]
fn relaxed_without_reason() {
    let text = "fn f() {\n    a.load(Ordering::Relaxed);\n}\n";
    assert_finds(LIBRARY, text, &[(2, Kind::RelaxedWithoutReason)]);
    assert_clean(
        LIBRARY,
        "fn f() {\n    // Relaxed: a counter.\n    a.load(Ordering::Relaxed);\n}\n",
    );
    // The reason for another ordering does not count.
    let text =
        "fn f() {\n    // Acquire: see `g`.\n    a(Ordering::Acquire, Ordering::Relaxed);\n}\n";
    assert_finds(LIBRARY, text, &[(3, Kind::RelaxedWithoutReason)]);
}

#[test]
fn names_brought_in() {
    let text = "use core::sync::atomic::Ordering::{self, Release};\nfn f() { a(Release) }\n";
    assert_finds(LIBRARY, text, &[(2, partner("Release"))]);
    let text = "use crate::sync::Ordering as O;\nfn f() { a(O::SeqCst) }\n";
    assert_finds(LIBRARY, text, &[(2, partner("SeqCst"))]);
    let text = "use sys::atomic::Ordering::*;\nfn f() { fence(AcqRel) }\n";
    assert_finds(LIBRARY, text, &[(2, partner("AcqRel"))]);
    let text = "macro_rules! m {\n() => { a(Ordering::Acquire) }\n}\n";
    assert_finds(LIBRARY, text, &[(2, partner("Acquire"))]);
    assert_clean(
        LIBRARY,
        "fn f() { a(Lock::Release, b.Acquire, Ordering::Less) }\nenum E { SeqCst }\n",
    );
    assert_clean(LIBRARY, "#[cfg(test)]\nmod checks {\n    fn f() { a(Ordering::SeqCst) }\n}\n");
}

#[test]
fn comment_reaches_six_lines() {
    let with_gap = |gap: usize| {
        let between = "    step();\n".repeat(gap);
        format!("fn f() {{\n    // Acquire: see `g`.\n{between}    a(Ordering::Acquire);\n}}\n")
    };
    assert_clean(LIBRARY, &with_gap(5));
    assert_finds(LIBRARY, &with_gap(6), &[(9, partner("Acquire"))]);
    // A long comment counts as a whole, whichever line contains the word.
    let why = "    // Why.\n".repeat(9);
    let text = format!("fn f() {{\n    // Acquire: see `g`.\n{why}    a(Ordering::Acquire);\n}}\n");
    assert_clean(LIBRARY, &text);
}

#[test]
fn comment_on_a_function_reaches_its_end() {
    let function = |opening: &str| {
        let between = steps("step", 0..20);
        let relaxed = "    a(Ordering::Relaxed);\n";
        format!("fn f() {{\n    // {opening}: a counter.\n{between}{relaxed}}}\n")
    };
    assert_clean(LIBRARY, &function("Relaxed, here and below"));
    assert_clean(LIBRARY, &function("Relaxed, all"));
    assert_finds(LIBRARY, &function("Relaxed"), &[(23, Kind::RelaxedWithoutReason)]);
    let other = format!("{}fn g() {{\n    a(Ordering::Relaxed);\n}}\n", function("Relaxed, all"));
    let text = other.replace("fn g", &format!("{}fn g", "fn h() {}\n".repeat(7)));
    assert_finds(LIBRARY, &text, &[(33, Kind::RelaxedWithoutReason)]);
}

#[test]
fn label_without_partner() {
    let lone = Kind::LabelWithoutPartner { label: "R1".into() };
    assert_finds(LIBRARY, "// Release: publishes the sheaf [R1].\nfn f() {}\n", &[(1, lone)]);
    assert_clean(LIBRARY, "// Release [R1].\nfn f() {}\n// Acquire [R1].\nfn g() {}\n");
    assert_clean(LIBRARY, "// See [`A1`], [A], [1], [a1] and [A1](x).\nfn f() {}\n");
}
