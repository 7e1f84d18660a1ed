//! The bars of BENCHMARKS: what each figure must reach before a release.
//!
//! A bar is a ratio of medians, ours to the best peer of the same row: sized forms meet sized
//! forms, unsized ones meet unsized ones, and a named cache meets both. For `slabtest` the
//! reference is the contender `locked`, and the bar is a speed-up turned over. The bars of `percpu`
//! and `counter` are in [`super::duels`].

use serde::{Deserialize, Serialize};

use crate::workload::name::Name;

/// What a bar is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versus {
    /// The best peer of the face's field.
    BestPeer,
    /// The same slab under a lock.
    Locked,
    /// What the judgement names.
    Named,
}

/// The most that a ratio may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bar {
    /// The reference.
    pub(crate) versus: Versus,
    /// The ratio that must not be exceeded.
    pub(crate) at_most: f64,
}

/// How much faster than `locked` the pairs of slabtest must be.
const SLABTEST_PAIR_SPEEDUP: f64 = 1.7;
/// How much faster than `locked` the repeated frees of slabtest must be.
const SLABTEST_FREE_SPEEDUP: f64 = 1.0;

/// The bar for a face of Sheaves in a workload, if there is one.
pub(crate) fn bar_for(workload: &str, face: &str) -> Option<Bar> {
    let Name { part, variant, size } = Name::parse(workload);
    let size = size.unwrap_or_default();
    let peer = |at_most| Some(Bar { versus: Versus::BestPeer, at_most });
    let locked = |speedup: f64| Some(Bar { versus: Versus::Locked, at_most: 1.0 / speedup });
    match (part.as_str(), variant.as_str(), face) {
        ("pair", "", "cache") => peer(0.75),
        ("pair", "", "sized") => peer(0.95),
        ("pair", "", "malloc") if size <= 1024 => peer(1.0),
        ("pair", "", "malloc") if size >= 4096 => peer(0.70),
        ("batch", _, "malloc") if size <= 64 => peer(0.80),
        ("batch", _, "malloc") => peer(0.65),
        ("remote", "1to1", _) if size == 64 => peer(1.10),
        ("remote", "1to1", _) if size >= 1024 => peer(0.90),
        ("replace", "2t", "sized" | "malloc") => peer(0.90),
        ("slabtest", "2", "cache") => locked(SLABTEST_PAIR_SPEEDUP),
        ("slabtest", "1-free", "cache") => locked(SLABTEST_FREE_SPEEDUP),
        _ => None,
    }
}

/// The name of a workload without its size.
pub(crate) fn group_of(workload: &str) -> &str {
    match workload.rsplit_once('/') {
        Some((group, size)) if size.parse::<usize>().is_ok() => group,
        _ => workload,
    }
}

/// A face of Sheaves against the best of its field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Judgement {
    /// `TABLE/VARIANT/SIZE`; `mean` in place of the size for the mean over all sizes.
    pub(crate) workload: String,
    /// Which face.
    pub(crate) contender: String,
    /// Who was the best of its field, or what else it is held against.
    pub(crate) versus: String,
    /// Ratio of the two medians: below 1 we are faster.
    pub(crate) ratio: f64,
    /// The most that the ratio may be, if there is a bar.
    pub(crate) at_most: Option<f64>,
    /// `PASS` or `MISS`, if there is a bar.
    pub(crate) verdict: Option<String>,
}

impl Judgement {
    /// Holds a ratio against its bar.
    pub(crate) fn new(
        workload: &str,
        contender: &str,
        versus: &str,
        ratio: f64,
        bar: Option<Bar>,
    ) -> Judgement {
        let verdict = |bar: Bar| if ratio <= bar.at_most { "PASS" } else { "MISS" };
        Judgement {
            workload: workload.to_owned(),
            contender: contender.to_owned(),
            versus: versus.to_owned(),
            ratio,
            at_most: bar.map(|bar| bar.at_most),
            verdict: bar.map(|bar| verdict(bar).to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(workload: &str, face: &str) -> Option<f64> {
        bar_for(workload, face).map(|bar| bar.at_most)
    }

    #[test]
    fn bars_follow_table_size_and_face() {
        assert_eq!(at_most("pair/64", "cache"), Some(0.75));
        assert_eq!(at_most("pair/64", "sized"), Some(0.95));
        assert_eq!(at_most("pair/1024", "malloc"), Some(1.0));
        assert_eq!(at_most("pair/2048", "malloc"), None);
        assert_eq!(at_most("pair/4096", "malloc"), Some(0.70));
        assert_eq!(at_most("batch/shuffled/64", "malloc"), Some(0.80));
        assert_eq!(at_most("batch/inorder/128", "malloc"), Some(0.65));
        assert_eq!(at_most("batch-free/inorder/128", "malloc"), None);
        assert_eq!(at_most("remote/1to1/64", "malloc"), Some(1.10));
        assert_eq!(at_most("remote/1to1/256", "malloc"), None);
        assert_eq!(at_most("remote/1to1-read/1024", "malloc"), None);
        assert_eq!(at_most("remote/1to1/1024", "malloc"), Some(0.90));
        assert_eq!(at_most("replace/2t", "sized"), Some(0.90));
        assert_eq!(at_most("replace/1t", "malloc"), None);
    }

    #[test]
    fn speedups_are_held_against_the_lock() {
        let bar = bar_for("slabtest/2/64", "cache").unwrap();
        assert_eq!(bar.versus, Versus::Locked);
        assert!((bar.at_most * 1.7 - 1.0).abs() < 1e-9);
        assert_eq!(at_most("slabtest/1-free/64", "cache"), Some(1.0));
        assert_eq!(at_most("slabtest/4/64", "cache"), None);
    }

    #[test]
    fn a_verdict_needs_a_bar() {
        let bar = bar_for("pair/64", "cache");
        let judge = |ratio, bar| Judgement::new("pair/64", "cache", "glibc", ratio, bar).verdict;
        assert_eq!(judge(0.75, bar).as_deref(), Some("PASS"));
        assert_eq!(judge(0.76, bar).as_deref(), Some("MISS"));
        assert_eq!(judge(f64::NAN, bar).as_deref(), Some("MISS"));
        assert_eq!(judge(0.5, None), None);
    }

    #[test]
    fn groups_lose_the_size_only() {
        assert_eq!(group_of("slabtest/2/64"), "slabtest/2");
        assert_eq!(group_of("replace/2t"), "replace/2t");
        assert_eq!(group_of("pair/8"), "pair");
    }
}
