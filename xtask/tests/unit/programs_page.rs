//! Tests of `src/programs/page.rs`.

use super::*;

/// The report of a machine, with programs that do not run on some allocators.
fn report() -> Report {
    let file = repo::root().join("docs/benchmarks/amd-zen-4/programs.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn each_program_is_a_table_and_so_are_the_means() {
    let report = report();
    let tables = Tables::new(&report);
    let of = |workload: &str, contender: &str, column: &str| {
        let rows = tables.rows.iter().filter(|row| row.workload == workload);
        let mut rows = rows.filter(|row| row.contender == contender);
        rows.find(|row| row.shown.column == column)
    };
    let index = report.allocators.iter().position(|name| name == OURS).unwrap();
    for program in &report.programs {
        let (own, ours) =
            (program.row(index).unwrap(), of(&program.name, OURS, "throughput to glibc"));
        let ours = ours.unwrap();
        assert!(ours.is_ours && ours.low <= ours.median && ours.median <= ours.high);
        assert!((ours.median - own.ratio).abs() < 1e-9, "{}", program.name);
        assert!(of(&program.name, BASE, "throughput to glibc").is_none());
    }
    let means = of("all", OURS, "peak memory to glibc").unwrap();
    assert_eq!(means.samples, report.programs.len());
    // What did not run is left out.
    let runs = |name| tables.rows.iter().filter(|row| row.contender == name).count();
    assert!(runs("jemalloc") < runs(OURS));
}
