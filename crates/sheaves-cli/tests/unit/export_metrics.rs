//! Tests of `src/export/metrics.rs`.

use super::*;

#[test]
fn each_cache_has_a_name_of_its_own() {
    let named = |name: &str| Cache { name: name.to_owned(), ..Cache::default() };
    let mut caches: Vec<_> = ["a", "a", "a#2", "a#3", "a", "b", "a#2"].map(named).into();
    prepare(&mut caches, 10);
    let names: Vec<_> = caches.iter().map(|cache| &*cache.name).collect();
    assert_eq!(names, ["a", "a#2", "a#2#2", "a#3", "a#4", "b", "a#2#3"]);
}
