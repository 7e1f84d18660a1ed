//! Tests of `src/harness/child.rs`.

use super::*;
use crate::harness::table::Row;

const MODE: Mode = Mode { name: "own", environment: Vec::new, is_fresh: false };

fn case() -> Case {
    let contender = |name| Contender::new(name, || Ok(Box::new(|| Ok(vec![7.0]))));
    let contenders = vec![contender("here"), contender("there").in_child(MODE)];
    Case::new(vec![Row::new("table/64".to_owned())], contenders)
}

#[test]
fn a_child_takes_samples_of_its_own_contenders() {
    let mut ready = Ready::new();
    let mut ask = |request| answer_to(request, "own", &[case()], &mut ready);
    let contender = || "there@own".to_owned();
    let sample = || Request::Sample { contender: contender() };
    assert!(ask(sample()).is_err());
    let prepare = Request::Prepare { case: "table/64".to_owned(), contender: contender() };
    assert!(matches!(ask(prepare), Ok(values) if values.is_empty()));
    assert!(matches!(ask(sample()), Ok(values) if values == [7.0]));
    for (case, contender) in [("table/64", "here"), ("table/65", "there@own")] {
        let (case, contender) = (case.to_owned(), contender.to_owned());
        assert!(ask(Request::Prepare { case, contender }).is_err());
    }
}

#[test]
fn a_number_that_was_not_measured_comes_through() {
    let answer: Answer = Ok(vec![1.5, f64::NAN]);
    let values = parse(&serde_json::to_string(&answer).unwrap()).unwrap().unwrap();
    assert!(values[0].to_bits() == 1.5_f64.to_bits() && values[1].is_nan(), "{values:?}");
    assert!(parse("").is_none());
    assert!(parse(r#"{"Err":"no memory"}"#).unwrap().is_err());
}
