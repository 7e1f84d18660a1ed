//! Tests of `src/harness/run.rs`.

use super::*;

static FAKE: Table = Table {
    ours: &["a"],
    remarks: |_| "\nA remark.\n".to_owned(),
    ..Table::new("fake", "what a run does with a table", cases)
};

fn cases(_options: &super::super::table::Options) -> Vec<Case> {
    let fixed = |name, value: f64| {
        Contender::new(name, move || Ok(Box::new(move || Ok(vec![value, f64::NAN]))))
    };
    let case = |size| {
        let row = Row::sized("fake", size).compared(|row| row.compare("a", "b", Some(0.5)));
        let unmeasured = Row::new(format!("unmeasured/{size}"));
        let left_out = Contender::left_out("c", "it is small".to_owned());
        Case::new(vec![row, unmeasured], vec![fixed("a", 2.0), fixed("b", 5.0), left_out])
    };
    vec![case(8), case(64)]
}

fn run() -> (Report, Vec<String>) {
    let options =
        super::super::table::Options { sizes: Vec::new(), threads: 1, few: true, quick: true };
    let effort = Effort { rounds_min: 3, rounds_max: 3, ..Effort::SHORT[1] };
    let cases = cases(&options);
    let plan = Plan { title: "fake".to_owned(), table: &FAKE, cases, effort, is_traced: false };
    let mut parts = Vec::new();
    let mut print = |text: &str| {
        parts.push(text.to_owned());
        Ok(())
    };
    let report = plan.run(&mut print).unwrap();
    (report, parts)
}

#[test]
fn figures_are_printed_when_their_table_is_complete() {
    let (report, parts) = run();
    let medians: Vec<_> =
        report.rows.iter().map(|row| (&row.workload[..], row.summary.median)).collect();
    assert_eq!(medians, [("fake/8", 2.0), ("fake/8", 5.0), ("fake/64", 2.0), ("fake/64", 5.0)]);
    assert!(report.rows.iter().all(|row| row.is_ours == (row.contender == "a")));
    assert_eq!(report.left_out[0].workloads, ["fake/8", "fake/64"]);
    let figures: Vec<_> = parts.iter().filter(|part| part.starts_with("\nfake\n")).collect();
    assert_eq!(figures.len(), 1, "{parts:?}");
    assert!(figures[0].contains("64") && figures[0].contains("5.00"), "{figures:?}");
    let ending = parts.last().unwrap();
    for part in ["A remark.", "c is left out", "PASS", "Bars: 2 passed, 0 missed."] {
        assert!(ending.contains(part), "{part} is missing in\n{ending}");
    }
}

#[test]
fn of_two_modes_the_better_one_counts() {
    use super::super::table::Mode;
    let modes = ["one", "other"];
    let modes = modes.map(|name| Mode { name, environment: Vec::new, is_fresh: false });
    let contender = |mode| {
        let make = || -> Result<Sampler, Failure> { Err(Failure::run("not made")) };
        Contender::new("peer", make).in_child(mode)
    };
    let row = Row::new("pair/64".to_owned()).compared(|row| row.compare("ours", "peer", None));
    let ours = Contender::new("ours", || Err(Failure::run("not made")));
    let modes = modes.map(contender);
    let mut report = Report::new("pair");
    let lanes: [(&Contender, &[f64]); 3] =
        [(&ours, &[2.0]), (&modes[0], &[8.0]), (&modes[1], &[4.0])];
    compare(&mut report, &FAKE, &row, &lanes);
    assert_eq!(report.rows.len(), 1);
    assert!((report.row("pair/64", "peer").unwrap().summary.median - 4.0).abs() < 1e-9);
    assert!((report.bars[0].ratio - 0.5).abs() < 1e-9);
}
