//! Allocators: the contenders of all tables that allocate ordinary objects.
//!
//! A workload is written once, generic over [`Allocator`], and compiled once for each, so that a
//! contender that is inlined in a real program is inlined here, and one that is called is called.
//!
//! | name | what | compared with |
//! |---|---|---|
//! | `cache` | a named cache of Sheaves, inlined (mixed sizes: one per 16 bytes) | every peer |
//! | `sized` | Sheaves as `GlobalAlloc`: size on both sides, inlined | sized forms |
//! | `malloc` | Sheaves as two C functions; free finds the size itself | unsized forms |
//! | `locked` | the same slab, a lock and an array of objects for each CPU | |
//! | `tid` | the same slab, a linked list and a transaction number for each CPU | |
//! | `glibc` | the C library's malloc, checked to be just that | |
//!
//! `locked` is the "before" of the change that made Linux's allocator fast in 2011 by leaving
//! disabled interrupts and locks out of the common path, and `tid` is what it did instead. The
//! other allocators are in `peers.rs`. Nothing here may be registered as the global allocator: the
//! program itself stays on glibc.

mod allocator;
pub(crate) mod glibc;
mod history;
pub(crate) mod library;
#[cfg(any(feature = "peers", feature = "peers-hardened"))]
pub(crate) mod peer;
#[cfg(feature = "peers")]
pub(crate) mod peers;
pub(crate) mod replacing;

use crate::harness::{Case, Contender, Failure, Judge, Row, Sizes};
pub(crate) use allocator::{Allocator, Workload, touch};
use library::{BySteps, make_cache};

/// The sizes of tables with one size for each case.
pub(crate) const SIZES: Sizes = Sizes {
    full: &[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    quick: &[8, 64, 1024, 16384],
    range: 8..=16384,
    unit: "bytes",
};

/// All allocators at a workload, and how each row is compared. All objects have this size; none:
/// sizes up to `MIXED_MAX`.
pub(crate) fn case<W: Workload>(rows: Vec<(Row, Bars)>, size: Option<usize>, workload: W) -> Case {
    let compared = |(row, bars): (Row, Bars)| row.compared(move |row| compare(row, bars));
    Case::new(rows.into_iter().map(compared).collect(), contenders(size, workload))
}

/// The contenders that a program has which calls malloc: their `free` finds the size.
pub(crate) fn contenders_of_malloc<W: Workload>(workload: W) -> Vec<Contender> {
    let mut contenders = contenders(None, workload);
    let is_malloc = |name: &str| name == "malloc" || UNSIZED.contains(&name);
    contenders.retain(|contender| is_malloc(contender.family));
    contenders
}

/// A row of these, in which `malloc` is held against the best of the others.
pub(crate) fn case_of_malloc<W: Workload>(row: Row, at_most: f64, workload: W) -> Case {
    let bars = Bars { malloc: Some(at_most), ..Bars::default() };
    Case::new(vec![row.compared(move |row| compare(row, bars))], contenders_of_malloc(workload))
}

fn contenders<W: Workload>(size: Option<usize>, workload: W) -> Vec<Contender> {
    let mut contenders = vec![
        by_size("cache", |size| make_cache("bench", size), size, workload),
        workload.contender("sized", || library::Sized),
        workload.contender("malloc", || library::Malloc),
        by_size("locked", history::locked, size, workload),
    ];
    #[cfg(target_arch = "x86_64")]
    if sheaves_history::tid::is_available() {
        contenders.push(by_size("tid", history::tid, size, workload));
    }
    contenders.push(workload.contender("glibc", || glibc::Glibc));
    #[cfg(feature = "peers")]
    contenders.extend(peers::contenders(workload));
    contenders
}

/// A contender that is made for one size, or once for every 16 bytes where sizes are mixed.
fn by_size<A: Allocator, W: Workload>(
    name: &'static str,
    make: fn(usize) -> Result<A, Failure>,
    size: Option<usize>,
    workload: W,
) -> Contender {
    Contender::new(name, move || match size {
        Some(size) => workload.sampler(make(size)?),
        None => workload.sampler(BySteps::new(make)?),
    })
}

/// The most that the ratios of Sheaves to the best of each field may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bars {
    pub(crate) cache: Option<f64>,
    pub(crate) sized: Option<f64>,
    pub(crate) malloc: Option<f64>,
    /// `cache` is held against `locked` instead.
    pub(crate) cache_to_locked: Option<f64>,
}

/// Sheaves, in each form.
pub(crate) const OURS: &[&str] = &["cache", "sized", "malloc"];

/// Peers that have to find the size from the address when they free.
pub(crate) const UNSIZED: &[&str] = if cfg!(feature = "peers") {
    &["glibc", "mimalloc", "jemalloc", "snmalloc", "rpmalloc", "tcmalloc"]
} else {
    &["glibc"]
};
/// Peers that are told the size when they free.
const SIZED: &[&str] = if cfg!(feature = "peers") {
    &["mimalloc-sized", "jemalloc-sized", "snmalloc-sized", "tcmalloc-sized"]
} else {
    &[]
};

/// Compares each form of Sheaves with the peers of the same form, and holds it against the best of
/// them.
pub(crate) fn compare(row: &mut Judge<'_>, bars: Bars) {
    for baseline in ["locked", "tid"] {
        row.ratio("cache", baseline);
    }
    let all = [UNSIZED, SIZED].concat();
    let forms = [("cache", &all[..], bars.cache), ("sized", SIZED, bars.sized)];
    for (form, field, at_most) in forms.into_iter().chain([("malloc", UNSIZED, bars.malloc)]) {
        for peer in field {
            row.ratio(form, peer);
        }
        if form == "cache" && bars.cache_to_locked.is_some() {
            row.hold(form, "locked", bars.cache_to_locked);
        } else if let Some(best) = row.best(field).filter(|_| row.median(form).is_some()) {
            // Against a part of its field the ratio is shown, but not judged.
            let at_most = at_most.filter(|_| row.has_all_peers(field));
            row.hold(form, best, at_most);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/contenders_allocators.rs"]
pub(crate) mod tests;
