//! `hardened/replace/Nt/MIN-MAX/LIVE`: one and two threads keep LIVE blocks of MIN to MAX bytes,
//! whose sizes are log-uniform, and replace random ones, as in `mixed`; `hardened/replace-peak` is
//! what resident memory grew by at the most, `hardened/replace-left` by how much it is larger when
//! all blocks are free again.
//!
//! Each contender has a process of its own for each case.

use std::path::Path;

use super::super::mixed::{Load, MEASURES};
use super::contenders::{PEERS, contenders};
use crate::contenders::allocators::replacing::log_uniform;
use crate::contenders::allocators::{Workload, glibc};
use crate::harness::{Case, Contender, Judge, Measure, Mode, Options};

/// The lowest and the highest size, and how many blocks each thread keeps.
const LOOPS: [(u16, u16, usize); 5] = [
    (16, 1016, 5000),
    (8, 16_000, 500),
    (8, 16_000, 5000),
    (8, 16_000, 50_000),
    (1000, 60_000, 500),
];

/// To Scudo, in time and memory, in eight of ten rows.
const SCUDO_MAX: f64 = 1.0;

pub(super) fn cases(options: &Options) -> impl Iterator<Item = Case> {
    let loops = if options.quick { &LOOPS[..1] } else { &LOOPS[..] };
    loops.iter().flat_map(|shape| [1, 2].map(|threads| case(*shape, threads)))
}

fn case((min, max, live): (u16, u16, usize), threads: usize) -> Case {
    let sizes = log_uniform(f64::from(min), f64::from(max)).leak();
    let load = Load { threads, percent: 0, live, sizes };
    let variant = format!("{threads}t/{min}-{max}/{live}");
    let heading = format!("hardened/replace/{variant}");
    let rows = Measure::rows(&MEASURES, ("hardened/replace", &variant), &heading, compare);
    let contenders = contenders(load).into_iter().map(|contender| {
        let name = contender.mode.map_or(contender.family, |mode| mode.name);
        contender.in_fresh_child(name)
    });
    Case::new(rows, contenders.chain([scudo(load)]).collect())
}

fn compare(row: &mut Judge<'_>, measure: &str) {
    row.ratio("hardened", "malloc");
    for peer in [&["glibc"], PEERS].concat() {
        row.ratio("hardened", peer);
    }
    // What is left depends on when memory goes back.
    row.compare("hardened", "scudo", Some(SCUDO_MAX).filter(|_| measure != "-left"));
}

const SCUDO_LIBRARY: &str =
    "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo_standalone-x86_64.so";

/// The C library's names, which Scudo has in a child process.
fn scudo(load: Load) -> Contender {
    if !Path::new(SCUDO_LIBRARY).exists() {
        return Contender::left_out("scudo", format!("no {SCUDO_LIBRARY}"));
    }
    let environment = || vec![("LD_PRELOAD", SCUDO_LIBRARY.to_owned())];
    let mode = Mode { name: "scudo", environment, is_fresh: true };
    load.contender("scudo", || glibc::Glibc).in_child(mode)
}
