//! Tests of `src/inspect/mod.rs`.

use sheaves_slab::internal::trap::layout::MAGIC;

use super::*;

/// The head of a table with this pool, whose last error has this time.
fn head(pool: u64, ms: u64) -> Vec<u64> {
    let [magic, more] = MAGIC;
    vec![magic, more, pool, 4096, 4096, Misuse::DoubleFree as u64 + 1, pool + 4096, ms]
}

#[test]
fn the_table_of_the_fault_or_of_the_newest_error_is_taken() {
    let (one, other) = (1 << 30, 1 << 40);
    let pool = |tables, address| choose(tables, address).map(|(geometry, _)| geometry.base as u64);
    let tables = || vec![head(one, 70), head(other, 50)];
    assert_eq!(pool(tables(), Some(other as usize + 8192)), Some(other));
    assert_eq!(pool(tables(), Some(one as usize + 8192)), Some(one));
    for address in [None, Some(8)] {
        assert_eq!(pool(tables(), address), Some(one));
        assert_eq!(pool(vec![head(one, 30), head(other, 50)], address), Some(other));
    }
    // A table without an error, and words that are none.
    let mut silent = head(one, 90);
    silent[5] = 0;
    assert_eq!(pool(vec![silent, head(other, 50), vec![0; 16]], None), Some(other));
    assert_eq!(pool(vec![vec![0; 16]], None), None);
}
