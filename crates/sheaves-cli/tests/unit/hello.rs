//! Tests of `src/hello.rs`.

use super::*;

#[test]
fn greeting_may_have_facts_of_newer_versions() {
    let hello: Hello = "sheaves: a runs on Sheaves b runs on Sheaves 0.1.0 (node 0, engine \
                        rseq, slots by cid, pid 42), and more"
        .parse()
        .expect("a greeting");
    assert_eq!(hello.version, "0.1.0");
    assert_eq!((hello.engine.as_str(), hello.slot.as_str()), ("rseq", "cid"));
}

#[test]
fn anything_else_is_not_a_greeting() {
    for line in [
        "",
        "sheaves",
        "sheaves: a does not run on Sheaves 1 (engine a, slots by b, pid 1)",
        "sheaves: a runs on Sheaves 1 (engine a, pid 1)",
        "sheaves: a runs on Sheaves 1 (engine a, slots by b, pid 1",
    ] {
        assert_eq!(line.parse::<Hello>(), Err(()), "{line:?}");
    }
}
