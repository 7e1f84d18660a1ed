//! `cargo xtask urcu-cost`: what a program for liburcu pays, with Sheaves and with liburcu's memb.
//!
//! One program, `crates/sheaves-capi/tests/urcu/cost.c`, is built with each library, inlined and
//! with calls. All four run in turn, and the medians are compared.

use std::path::Path;

use anyhow::Context as _;

use crate::median::median;
use crate::urcu_examples::{self, Bench};

const PROGRAM: &str = "crates/sheaves-capi/tests/urcu/cost.c";
/// What it prints, in this order.
const FIGURES: [&str; 4] = ["section", "call_rcu", "malloc, call_rcu", "malloc, call_rcu, free"];
/// Rounds over all programs.
const ROUNDS: usize = 9;

/// A kind of build, with the flags for each library.
struct Kind {
    name: &'static str,
    ours: &'static [&'static str],
    theirs: &'static [&'static str],
}

const KINDS: [Kind; 2] = [
    Kind { name: "inlined", ours: &[], theirs: &["-D_LGPL_SOURCE"] },
    Kind { name: "called", ours: &["-DSHEAVES_NO_INLINE"], theirs: &[] },
];

/// Builds, runs and prints.
pub fn run(root: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(urcu_examples::are_there(), "install liburcu-dev first");
    let bench = Bench::new(root)?;
    let source = root.join(PROGRAM);
    let libraries = ["-lurcu".to_owned()];
    let mut programs = Vec::new();
    for kind in &KINDS {
        for (is_ours, flags) in [(true, kind.ours), (false, kind.theirs)] {
            let program = bench.compile_with(&source, flags, &libraries, is_ours)?;
            let own = program.with_extension(kind.name);
            std::fs::rename(&program, &own)?;
            programs.push((own, [const { Vec::new() }; FIGURES.len()]));
        }
    }
    for _ in 0..ROUNDS {
        for (program, found) in &mut programs {
            let text = urcu_examples::output_of(program, &[])?;
            let figures: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
            for (found, figure) in found.iter_mut().zip(figures.with_context(|| text.clone())?) {
                found.push(figure);
            }
        }
    }
    for (kind, pair) in KINDS.iter().zip(programs.chunks(2)) {
        for (index, figure) in FIGURES.iter().enumerate() {
            let [ours, theirs] =
                [0, 1].map(|library: usize| median(pair[library].1[index].clone()));
            let ratio = ours / theirs;
            println!(
                "urcu-cost: {}: {figure}: {ours:.2} ns, liburcu memb {theirs:.2} ns, ratio \
                 {ratio:.2}",
                kind.name
            );
        }
    }
    Ok(())
}
