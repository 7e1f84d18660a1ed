//! Tests of `src/tables/cxx/mod.rs`.

use super::*;
use crate::harness::judge::tests::verdicts;

#[test]
fn retirement_is_held_against_c_and_containers_against_mimalloc() {
    let field = [("c", 10.0), ("rcu_retire", 13.5), ("c-call", 1.0), ("rcu_obj_base", 9.0)];
    assert_eq!(verdicts(&field, |row| compare(row, "retire")), ["c MISS"]);
    let field = [("allocator", 0.9), ("pmr", 1.1), ("std", 2.0), ("mimalloc", 1.0)];
    let expected = ["mimalloc PASS", "mimalloc MISS"];
    assert_eq!(verdicts(&field, |row| compare(row, "map")), expected);
}
