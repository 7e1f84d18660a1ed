//! Programs that must not compile: each would be unsound, or wait for itself.

#[test]
fn what_would_be_unsound_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
