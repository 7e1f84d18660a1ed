//! `readers`: entering a section and leaving it, and what is read in between.
//!
//! `enter-leave/Nt`: N threads enter and leave sections; the row is one section, averaged
//! over the threads. `load-K/Nt`: in each section they read a pointer and the value behind `K`
//! dependent loads, while one more thread replaces what the pointer leads to, all the time. The
//! row `load-K-replace/Nt` is the time from one replacement to the next. How often an updater
//! replaces depends on whether it waits for readers, so these two rows belong together. What was
//! read is checked. A quick run has K = 1 and 5.
//!
//! | contender | section | what is replaced |
//! |---|---|---|
//! | `rcu` | guard of the default domain | freed after a wait |
//! | `srcu` | guard of a domain of its own | freed after a wait |
//! | `increments` | two transactions on the slot: the floor for `srcu` | no such row |
//! | `crossbeam-epoch` | pins the thread | deferred |
//! | `seize` | enters the collector | retired |
//! | `haphazard` | a hazard pointer, kept: protect and give up | retired |
//! | `arc-swap` | `load` | freed by its last user |
//! | `rwlock`, `parking_lot` | read lock | freed at once |
//! | `liburcu-memb`, `-mb`, `-bp`, `-qsbr` | inlined from its headers, `-O2` | freed after a wait |

mod contenders;
mod crates;
mod library;
#[cfg(feature = "peers")]
mod liburcu;
mod root;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_epoch::Owned;

use crate::harness::{
    Case, Contender, Failure, Judge, Options, Row, Sampler, SpinBarrier, Table, Workers,
    per_operation,
};
use contenders::{Chain, Node, Read};

const SECTIONS: usize = 100_000;
const SECTIONS_UNTIMED: usize = 2000;
/// Loads in a chain at most.
const DEPTH_MAX: usize = 5;

/// A section of the default domain to one of liburcu's usual flavour, and to a pin of crossbeam.
const SECTION_TO_LIBURCU: f64 = 0.7;
const SECTION_TO_CROSSBEAM: f64 = 0.35;
/// What a section of a domain of its own may cost, in nanoseconds; if it costs more, then to the
/// two transactions that it consists of.
const SRCU_NS_MAX: f64 = 1.6;
const SRCU_TO_INCREMENTS: f64 = 1.3;

pub(crate) static TABLE: Table = Table {
    ours: &["rcu", "srcu"],
    ..Table::new(
        "readers",
        "enter and leave read sections in 1 to --threads threads; read a pointer in them",
        cases,
    )
};

fn cases(options: &Options) -> Vec<Case> {
    let few = |depth: &usize| [0, 1, DEPTH_MAX].contains(depth);
    let depths = (0..=DEPTH_MAX).filter(|depth| !options.few || few(depth));
    let each = |depth| (1..=options.threads).map(move |threads| Reads { depth, threads });
    depths.flat_map(each).map(case).collect()
}

#[derive(Clone, Copy)]
struct Reads {
    /// Dependent loads in each section. None: sections are empty, and nothing is replaced.
    depth: usize,
    threads: usize,
}

fn case(reads: Reads) -> Case {
    let Reads { depth, threads } = reads;
    let rows = if depth == 0 {
        vec![Row::new(format!("enter-leave/{threads}t")).compared(compare_sections)]
    } else {
        let row = Row::new(format!("load-{depth}/{threads}t"));
        let replacement = Row::new(format!("load-{depth}-replace/{threads}t"));
        vec![row.compared(|row| compare(row, None, None)), replacement]
    };
    Case::new(rows, contenders_of(reads))
}

fn contenders_of(reads: Reads) -> Vec<Contender> {
    let mut contenders = vec![
        reads.contender("rcu", library::Rcu::new),
        Contender::new("srcu", move || reads.sampler(library::Srcu::new(reads.chain())?)),
    ];
    // Nothing can ever be freed where the floor stands.
    if reads.depth == 0 {
        let make = move || reads.sampler(library::Increments::new()?);
        contenders.push(Contender::new("increments", make));
    }
    contenders.extend([
        reads.contender("crossbeam-epoch", |chain| crates::Crossbeam {
            root: Owned::<Node>::from(chain).into(),
        }),
        reads.contender("seize", crates::Seize::new),
        reads.contender("haphazard", |chain| crates::Haphazard { root: chain.into() }),
        reads.contender("arc-swap", |chain| crates::Swap { root: Arc::<Node>::from(chain).into() }),
        reads.contender("rwlock", |chain| crates::Std { root: chain.into() }),
        reads.contender("parking_lot", |chain| crates::ParkingLot { root: chain.into() }),
    ]);
    #[cfg(feature = "peers")]
    for (name, flavour) in crate::contenders::liburcu::flavours() {
        let make = move || reads.sampler(liburcu::Reader::new(flavour, reads.chain()));
        contenders.push(Contender::new(name, make));
    }
    contenders
}

fn compare(row: &mut Judge<'_>, to_liburcu: Option<f64>, to_crossbeam: Option<f64>) {
    row.compare("rcu", "liburcu-memb", to_liburcu);
    row.compare("rcu", "crossbeam-epoch", to_crossbeam);
    let others =
        ["liburcu-bp", "liburcu-qsbr", "seize", "haphazard", "arc-swap", "rwlock", "parking_lot"];
    for other in others {
        row.compare("rcu", other, None);
    }
}

fn compare_sections(row: &mut Judge<'_>) {
    compare(row, Some(SECTION_TO_LIBURCU), Some(SECTION_TO_CROSSBEAM));
    match row.median("srcu") {
        Some(ns) if ns > SRCU_NS_MAX => row.hold("srcu", "increments", Some(SRCU_TO_INCREMENTS)),
        ns => row.limit("srcu", "1 ns", ns, SRCU_NS_MAX),
    }
}

impl Reads {
    fn contender<C: Read>(self, name: &'static str, make: fn(Chain) -> C) -> Contender {
        Contender::new(name, move || self.sampler(make(self.chain())))
    }

    fn chain(self) -> Chain {
        Node::chain(self.depth.max(1))
    }

    fn sampler<C: Read>(self, contender: C) -> Result<Sampler, Failure> {
        let contender = Arc::new(contender);
        match self.depth {
            0 => sections(contender, self.threads),
            1 => loads::<C, 1>(contender, self.threads),
            2 => loads::<C, 2>(contender, self.threads),
            3 => loads::<C, 3>(contender, self.threads),
            4 => loads::<C, 4>(contender, self.threads),
            _ => loads::<C, DEPTH_MAX>(contender, self.threads),
        }
    }
}

fn sections<C: Read>(contender: Arc<C>, threads: usize) -> Result<Sampler, Failure> {
    let workers = Workers::of(threads)?;
    Ok(Box::new(move || {
        let contender = Arc::clone(&contender);
        let time = workers.time(SECTIONS_UNTIMED, SECTIONS, move |_| {
            contender.enter_thread();
            let entered = Entered(Arc::clone(&contender));
            move |count| entered.0.sections(count)
        });
        Ok(vec![time])
    }))
}

/// A thread that has entered.
struct Entered<C: Read>(Arc<C>);

impl<C: Read> Drop for Entered<C> {
    fn drop(&mut self) {
        self.0.leave_thread();
    }
}

/// What a thread brings back: nanoseconds for each section, or for each replacement.
fn loads<C: Read, const K: usize>(contender: Arc<C>, threads: usize) -> Result<Sampler, Failure> {
    // One more thread, which replaces.
    let workers = Workers::of(threads + 1)?;
    Ok(Box::new(move || {
        let barrier = SpinBarrier::new(threads + 1);
        let busy = AtomicUsize::new(threads);
        let contender = Arc::clone(&contender);
        let figures = workers.run(move |index| {
            if index == threads {
                return replace::<C, K>(&contender, &barrier, &busy);
            }
            contender.enter_thread();
            barrier.wait();
            let start = Instant::now();
            let sum = contender.loads::<K>(SECTIONS);
            let time = start.elapsed();
            // Relaxed: tells that a thread is done, and nothing else.
            busy.fetch_sub(1, Ordering::Relaxed);
            contender.leave_thread();
            check(sum).map(|()| per_operation(time, SECTIONS))
        });
        let mut figures = figures.into_iter().collect::<Result<Vec<f64>, Failure>>()?;
        let replacement = figures.pop().unwrap_or_default();
        Ok(vec![figures.iter().sum::<f64>() / threads as f64, replacement])
    }))
}

/// Replaces what is read until no thread reads any more, and once at the least.
fn replace<C: Read, const K: usize>(
    contender: &C,
    barrier: &SpinBarrier,
    busy: &AtomicUsize,
) -> Result<f64, Failure> {
    barrier.wait();
    let start = Instant::now();
    let mut count = 0;
    // Relaxed: as where it is counted down.
    while count == 0 || busy.load(Ordering::Relaxed) > 0 {
        contender.replace(Node::chain(K));
        count += 1;
    }
    Ok(per_operation(start.elapsed(), count))
}

fn check(sum: u64) -> Result<(), Failure> {
    if sum == SECTIONS as u64 * Node::VALUE {
        return Ok(());
    }
    Err(Failure::run("a reader has read what was freed"))
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_readers.rs"]
mod tests;
