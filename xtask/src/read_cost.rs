//! `cargo xtask read-cost`: the cost of a read section in C, with Sheaves and with liburcu's memb.
//!
//! One program, `crates/sheaves-capi/tests/urcu/read_cost.c`, is built with each library, inlined
//! and with calls. All four run in turn, and the medians are compared.

use std::path::Path;

use anyhow::Context as _;

use crate::median::median;
use crate::urcu_examples::{self, Bench};

const PROGRAM: &str = "crates/sheaves-capi/tests/urcu/read_cost.c";
/// Rounds over all programs.
const ROUNDS: usize = 7;

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
            programs.push((own, Vec::with_capacity(ROUNDS)));
        }
    }
    for _ in 0..ROUNDS {
        for (program, found) in &mut programs {
            let text = urcu_examples::output_of(program, &["5"])?;
            found.push(text.trim().parse::<f64>().with_context(|| text.clone())?);
        }
    }
    let medians: Vec<_> = programs.into_iter().map(|(_, found)| median(found)).collect();
    for (kind, pair) in KINDS.iter().zip(medians.chunks(2)) {
        println!(
            "read-cost: {}: {:.3} ns, liburcu memb {:.3} ns, ratio {:.2}",
            kind.name,
            pair[0],
            pair[1],
            pair[0] / pair[1]
        );
    }
    Ok(())
}
