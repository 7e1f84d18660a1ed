//! Texts that the checker must not take: what it does not understand, it names.

use crate::candidates::judge;
use crate::model::Model;
use crate::parse::parse;

/// A text whose first thread is `body`.
fn text(body: &str) -> String {
    format!("C text\n{{}}\nP0(int *x)\n{{\nint r0;\n{body}\n}}\nexists (0:r0=0)\n")
}

/// The reason for which a text is refused.
fn reason(text: &str) -> String {
    match parse(text).and_then(|litmus| judge(&litmus, Model::WHOLE)) {
        Ok(verdict) => panic!("the text was taken, as {verdict}:\n{text}"),
        Err(reason) => reason,
    }
}

#[test]
fn statements_outside_of_the_subset_are_refused() {
    let refused = [
        ("smp_mb__after_atomic();", "line 6: `smp_mb__after_atomic` is not in the subset"),
        ("rcu_read_lock();", "line 6: `rcu_read_lock` is not in the subset"),
        ("while (r0) smp_mb();", "line 6: `while` is not in the subset"),
        ("r0 = atomic_read(x);", "line 6: `atomic_read` is not in the subset"),
        ("r0 = READ_ONCE(*x) + 1;", "line 6: expected `;`, found `+`"),
        ("r0 = 1 + READ_ONCE(*x);", "line 6: `READ_ONCE` within an expression: assign it first"),
        ("*x = 1;", "line 6: a plain write: use `WRITE_ONCE`"),
        ("r0 = *x;", "line 6: a plain read: use `READ_ONCE`, and in a statement of its own"),
        ("r0 = x;", "line 6: `x` is not a register of this thread"),
        ("r1 = 1;", "line 6: `r1` is not declared in this thread"),
        ("WRITE_ONCE(*y, 1);", "line 6: `y` is not a parameter of this thread"),
        ("WRITE_ONCE(x, 1);", "line 6: expected `*`, found `x`"),
        ("smp_store_release(*x, 1);", "line 6: expected a name, found `*`"),
        ("smp_mb()", "line 7: expected `;`, found `}`"),
        ("smp_mb(); @", "line 6: unknown letter: `@`"),
        ("/* smp_mb();", "line 6: no end: `*/`"),
        ("WRITE_ONCE(*x, r0);", "P0: `r0` is used before it is assigned"),
        ("r0 = READ_ONCE(*x); WRITE_ONCE(*x, r0 + 1);", "`x` has too many values"),
        ("", "`0:r0` is not assigned on every path"),
    ];
    for (body, expected) in refused {
        assert_eq!(reason(&text(body)), expected, "{body}");
    }
}

#[test]
fn clauses_outside_of_the_subset_are_refused() {
    let good = text("r0 = READ_ONCE(*x);");
    let refused = [
        ("exists", "forall", "line 8: expected `exists`, found `forall`"),
        ("exists", "locations [x;] exists", "line 8: expected `exists`, found `locations`"),
        ("exists", "~exists", "line 8: expected `exists`, found `~`"),
        ("P0(int *x)", "P1(int *x)", "line 3: expected `exists`, found `P1`"),
        ("P0(int *x)", "P0(atomic_t *x)", "line 3: expected `int`, found `atomic_t`"),
        ("0:r0=0", "1:r0=0", "line 8: P1 has no register `r0`"),
        ("0:r0=0", "y=0", "line 8: `y` is not a location"),
        ("0:r0=0)", "0:r0=0) x", "line 8: expected the end, found `x`"),
        ("{}", "{ x=1; x=2; }", "line 2: `x` has two initial values"),
        ("{}", "(* Result: Maybe *) {}", "unknown result: `Maybe`"),
        ("C text", "LISA text", "line 1: expected `C NAME`, found `LISA text`"),
    ];
    for (old, new, expected) in refused {
        assert_eq!(reason(&good.replacen(old, new, 1)), expected, "{new}");
    }
}
