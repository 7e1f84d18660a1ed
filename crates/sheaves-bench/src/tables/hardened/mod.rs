//! `hardened`: the workloads of `pair` and `batch` (shuffled) in hardened mode.
//!
//! | contender | what |
//! |---|---|
//! | `malloc` | Sheaves as two C functions, in the default mode |
//! | `hardened` | the same in a child process with `SHEAVES_HARDEN=1` |
//! | `glibc` | the C library's malloc |
//! | `mimalloc-secure` | mimalloc in secure mode (`MI_SECURE=4`) |
//! | `snmalloc-checks` | snmalloc with its checks |
//!
//! Rows are `hardened/pair/SIZE`, `hardened/batch/SIZE` and the two halves of the latter. The peers
//! need the feature `peers-hardened`. It excludes `peers`: one program has one build of a library.

#[cfg(feature = "peers-hardened")]
mod peers;

use super::{batch, pair};
use crate::contenders::allocators::{Workload, glibc, library};
use crate::harness::{Case, Contender, Judge, Mode, Options, Row, Sizes, Table};

#[cfg(all(feature = "peers", feature = "peers-hardened"))]
compile_error!("choose one of the features `peers` and `peers-hardened`");

/// To the default mode.
const PAIR_MAX: f64 = 3.5;
const BATCH_MAX: f64 = 2.5;
/// To the best of the hardened peers.
const PEER_MAX: f64 = 1.0;

const PEERS: &[&str] = &["mimalloc-secure", "snmalloc-checks"];

const HARDENED: Mode = Mode { name: "hardened", environment, is_fresh: false };

fn environment() -> Vec<(&'static str, String)> {
    vec![("SHEAVES_HARDEN", "1".to_owned())]
}

pub(crate) static TABLE: Table = Table {
    ours: &["hardened", "malloc"],
    sizes: Some(Sizes {
        full: &[16, 64, 256, 1024, 4096],
        quick: &[64, 1024],
        range: 1..=16384,
        unit: "bytes",
    }),
    ..Table::new("hardened", "pair and batch with SHEAVES_HARDEN=1, beside hardened peers", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let pairs = options.sizes.iter().map(|size| {
        let row = Row::sized("hardened/pair", *size).compared(|row| compare(row, PAIR_MAX));
        Case::new(vec![row], contenders(pair::plain(*size)))
    });
    let batches = options.sizes.iter().map(|size| {
        let row = |part: &str| Row::sized(&format!("hardened/{part}"), *size);
        let rows = vec![
            row("batch").compared(|row| compare(row, BATCH_MAX)),
            row("batch-alloc"),
            row("batch-free"),
        ];
        Case::new(rows, contenders(batch::shuffled(*size)))
    });
    pairs.chain(batches).collect()
}

fn contenders<W: Workload>(workload: W) -> Vec<Contender> {
    #[cfg_attr(not(feature = "peers-hardened"), expect(unused_mut, reason = "peers are added"))]
    let mut contenders = vec![
        workload.contender("hardened", || library::Malloc).in_child(HARDENED),
        workload.contender("malloc", || library::Malloc),
        workload.contender("glibc", || glibc::Glibc),
    ];
    #[cfg(feature = "peers-hardened")]
    contenders.extend(peers::contenders(workload));
    contenders
}

fn compare(row: &mut Judge<'_>, at_most: f64) {
    row.compare("hardened", "malloc", Some(at_most));
    for peer in [&["glibc"], PEERS].concat() {
        row.ratio("hardened", peer);
    }
    let best = row.best(PEERS);
    if let (true, Some(best)) = (row.has_all_peers(PEERS), best) {
        row.hold("hardened", best, Some(PEER_MAX));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_hardened.rs"]
mod tests;
