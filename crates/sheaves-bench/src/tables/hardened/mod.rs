//! `hardened`: the workloads of `pair`, `batch` (shuffled) and `mixed` in hardened mode.
//!
//! | contender | what |
//! |---|---|
//! | `malloc` | Sheaves as two C functions, in the default mode |
//! | `hardened` | the same in a child process with `SHEAVES_HARDEN=1` |
//! | `glibc` | the C library's malloc |
//! | `mimalloc-secure` | mimalloc in secure mode (`MI_SECURE=4`) |
//! | `snmalloc-checks` | snmalloc with its checks |
//! | `scudo` | Scudo, of Debian's libclang-rt-14-dev, in `hardened/replace` alone |
//!
//! Rows are `hardened/pair/SIZE`, `hardened/batch/SIZE` and the two halves of the latter, and those
//! of [`replace`]. The peers need the feature `peers-hardened`, but for Scudo, which is preloaded.
//! It excludes `peers`: one program has one build of a library.

mod contenders;
#[cfg(feature = "peers-hardened")]
mod peers;
mod replace;

use super::{batch, pair};
use crate::harness::{Case, Judge, Options, Row, Sizes, Table};
use contenders::{PEERS, contenders};

#[cfg(all(feature = "peers", feature = "peers-hardened"))]
compile_error!("choose one of the features `peers` and `peers-hardened`");

/// To the default mode.
const PAIR_MAX: f64 = 3.5;
const BATCH_MAX: f64 = 2.5;
/// To the best of the hardened peers.
const PEER_MAX: f64 = 1.0;

pub(crate) static TABLE: Table = Table {
    ours: &["hardened", "malloc"],
    sizes: Some(Sizes {
        full: &[16, 64, 256, 1024, 4096],
        quick: &[64, 1024],
        range: 1..=16384,
        unit: "bytes",
    }),
    ..Table::new("hardened", "pair, batch and replace with SHEAVES_HARDEN=1, and peers", cases)
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
    pairs.chain(batches).chain(replace::cases(options)).collect()
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
