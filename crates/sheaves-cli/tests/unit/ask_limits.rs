//! Tests of `src/ask/limits.rs`.

use proptest::prelude::*;

use super::{ELEMENTS_MAX, are_kept};
use crate::ask::answer::{Rcu, Statistics};

#[test]
fn answers_within_the_limits_are_read() {
    for text in ["{}", "{\"a\":[1,2,{\"b\":null}],\"c\":true}\n", "[]"] {
        assert!(are_kept(text), "{text}");
    }
}

#[test]
fn answers_beyond_a_limit_are_refused() {
    let many = |element: &str, count: usize| format!("[{}]", vec![element; count].join(","));
    assert!(are_kept(&many("{}", ELEMENTS_MAX)));
    for text in [
        many("{}", ELEMENTS_MAX + 1),
        "[".repeat(100_000),
        many("1", 2_000_000),
        format!("\"{}\"", "a".repeat(257)),
        "\"\\u001b]0;title\\u0007\"".to_owned(),
        "{\"\\u009b2J\":1}".to_owned(),
        "-1".to_owned(),
        "1.5".to_owned(),
        "1e300".to_owned(),
        "{} {}".to_owned(),
        String::new(),
    ] {
        assert!(!are_kept(&text), "{text:.60}");
    }
}

/// JSON of some shape.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    let key = prop_oneof![
        Just("caches"),
        Just("name"),
        Just("rcu"),
        Just("readers"),
        Just("lengths"),
        Just("tid"),
        Just("totals"),
        Just("percpu"),
        Just("objects_out"),
        Just("limit"),
        Just("sequence"),
    ];
    leaf.prop_recursive(6, 64, 8, move |inner| {
        let members = proptest::collection::vec((key.clone(), inner.clone()), 0..8);
        prop_oneof![
            proptest::collection::vec(inner, 0..8).prop_map(|all| format!("[{}]", all.join(","))),
            members.prop_map(|all| {
                let all = all.iter().map(|(key, value)| format!("\"{key}\":{value}"));
                format!("{{{}}}", all.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

proptest! {
    /// What is made of any answer does not overflow.
    #[test]
    fn any_answer_is_read_or_refused(text in json()) {
        if are_kept(&text) {
            if let Ok(statistics) = serde_json::from_str::<Statistics>(&text) {
                let percent: Vec<_> =
                    statistics.caches.iter().map(|cache| cache.use_percent()).collect();
                prop_assert_eq!(percent.len(), statistics.caches.len());
            }
            if let Ok(rcu) = serde_json::from_str::<Rcu>(&text) {
                prop_assert!(rcu.rcu.lengths.len() <= 64 && rcu.rcu.count() < u64::MAX);
            }
        }
    }

    #[test]
    fn any_text_is_refused_or_read(text: String) {
        prop_assert_eq!(are_kept(&text) && text.contains('\x1b'), false);
    }
}
