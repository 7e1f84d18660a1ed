//! Tests of `src/contenders/allocators/mod.rs`.

#[path = "contenders_allocators_checks.rs"]
pub(crate) mod checks;
#[path = "contenders_allocators_history.rs"]
mod history;

use super::*;
use crate::harness::judge::tests::verdicts;

#[test]
fn each_form_is_held_against_its_field() {
    let bars = Bars { malloc: Some(1.0), cache_to_locked: Some(0.4), ..Bars::default() };
    let mut field = vec![("cache", 2.0), ("malloc", 3.0), ("locked", 4.0)];
    let judged = |field: &[_]| verdicts(field, |row| compare(row, bars));
    field.push(("glibc", 2.0));
    // Against a part of its field a bar would say little.
    assert_eq!(judged(&field), ["locked MISS"]);
    field.extend(UNSIZED[1..].iter().map(|name| (*name, 6.0)));
    let expected = ["locked MISS", "glibc MISS"];
    assert_eq!(judged(&field)[..], expected[..if cfg!(feature = "peers") { 2 } else { 1 }]);
}
