//! Tests of `src/tables/slabtest/mod.rs`.

use super::*;

#[test]
fn all_six_parts_are_there_and_concurrent_ones_stop_at_a_page() {
    let options = Options { sizes: vec![64, 16384], threads: 2, few: false, quick: false };
    let cases = (TABLE.cases)(&options);
    let names: Vec<_> = cases.into_iter().flat_map(|case| case.rows).map(|row| row.name).collect();
    for name in ["slabtest/1-alloc/64", "slabtest/1-free/16384", "slabtest/2/16384"] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
    for name in ["3-alloc", "4", "5-free", "5-printed2", "6-alloc", "6-printed"] {
        assert!(names.contains(&format!("slabtest/{name}/64")), "{name}");
        assert!(!names.contains(&format!("slabtest/{name}/16384")), "{name}");
    }
}

#[test]
fn corrected_figures_divide_by_what_was_done() {
    let objects = OBJECTS as f64;
    let times = Times { phase_1: vec![0.0, 8.0 * objects], phase_2: vec![6.0 * objects, 0.0] };
    assert_eq!(remote_free(&times), [8.0, 6.0, 4.0, 3.0]);
    let times = Times { phase_1: vec![8.0 * objects, 6.0 * objects], phase_2: vec![] };
    assert_eq!(one_for_all(&times), [8.0, 12.0, 7.0]);
}
