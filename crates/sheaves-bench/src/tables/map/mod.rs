//! `map`: many threads at one hash map.
//!
//! | row | entries | operations |
//! |---|---|---|
//! | `read-99/Nt/ENTRIES` | all keys | 99 % lookups, 1 % replace a value |
//! | `mixed-90/Nt/ENTRIES` | half of the keys | 90 % lookups, 5 % insert, 5 % remove |
//! | `write-50/Nt/ENTRIES` | half of the keys | 50 % lookups, 25 % insert, 25 % remove |
//! | `grow/Nt/ENTRIES` | from none to all | each thread inserts its share, in random order |
//! | `iterate/Nt/ENTRIES` | all keys | each thread iterates over all, each entry |
//! | `remove/Nt/ENTRIES` | from all to none | each thread removes its share, in another order |
//! | `clear/1t/ENTRIES` | from all to none | one call, each entry |
//! | `memory/1t/ENTRIES` | all keys | bytes of resident memory for each, after `grow` |
//! | `fx/KEYS/1t/ENTRIES` | from none to all | an insertion and a lookup of each key, in order |
//! | `identity/KEYS/1t/ENTRIES` | from none to all | the same |
//!
//! Behind `map/`, a row is one operation, averaged over the threads. Values are numbers of 64 bits,
//! and so are keys; each key is as likely as any other. Behind `map/string/` keys are strings of 16
//! letters. Maps have their capacity from the start, but in `grow` and what follows. What a lookup
//! or an iteration finds is compared with what belongs there.
//!
//! All contenders of a row have the same hasher: foldhash, or behind `map/siphash/` and
//! `map/string-siphash/` std's `RandomState`. That is the default of all but the library's map:
//! what a program gets that names no hasher is compared there with `rcu-map-default`.
//!
//! Contenders are `rcu-map`, the library's, `word-map`, its map with numbers in the table,
//! `papaya`, `dashmap`, `scc`, and `rwlock`, which is std's map behind one lock. They enter and
//! leave a section for each operation; `rcu-map-held` and `papaya-held` hold one guard for 64. The
//! library's maps allocate from its own heap, the others, and all strings, from glibc's. A first
//! look at the whole table leaves out strings, SipHash, hashers of few bits and 1,000 entries:
//! `map/string` and the like are asked for by name.
//!
//! Behind `map/fx/` and `map/identity/` hashes are those of rustc's maps, and the keys themselves.
//! KEYS are multiples of a power of two, as `shift-12` for 4,096, or `address`es of blocks of 48
//! bytes. Maps of up to 10,000 entries are compared with `dashmap`.

mod course;
mod hashes;
mod mixes;

use std::hash::RandomState;

use foldhash::fast::FixedState;

use crate::contenders::maps::{self, Key, OURS, PEERS, Seed, WORDS};
use crate::harness::{Case, Effort, Judge, Options, Row, Sizes, Table};
use course::{Course, Memory};
use mixes::{MIXES, Operations};

/// The ratio to the best peer, with several threads and with one: of an operation, and of one while
/// the map grows.
const OPERATION_MAX: [f64; 2] = [1.0, 1.1];
const GROWTH_MAX: [f64; 2] = [1.1, 1.5];
/// The same of `word-map`, which allocates nothing for an entry.
const WORDS_MAX: [f64; 2] = [1.1, 1.1];
const MEMORY_MAX: f64 = 1.5;

/// With more entries than this a sample takes a good part of a second.
const SHORT_ENTRIES_MAX: usize = 100_000;
/// Memory of fewer entries is less than what a process has anyway.
const MEMORY_ENTRIES_MIN: usize = 100_000;

pub(crate) static TABLE: Table = Table {
    ours: &["rcu-map", "rcu-map-default", "rcu-map-held", WORDS],
    sizes: Some(Sizes {
        full: &[1000, 10_000, 1_000_000],
        quick: &[10_000, 1_000_000],
        range: 64..=100_000_000,
        unit: "entries",
    }),
    ..Table::new(
        "map",
        "1 to --threads threads at one hash map; --sizes are numbers of entries",
        cases,
    )
};

/// Makes the cases of a kind of keys and a hasher.
type Make = fn(Shape) -> Vec<Case>;

const VARIANTS: [(&str, Make); 4] = [
    ("", cases_of::<u64, FixedState>),
    ("string/", cases_of::<String, FixedState>),
    ("siphash/", cases_of::<u64, RandomState>),
    ("string-siphash/", cases_of::<String, RandomState>),
];

#[derive(Clone, Copy)]
struct Shape {
    variant: &'static str,
    threads: usize,
    entries: usize,
    effort: Option<Effort>,
}

impl Shape {
    fn row(self, part: &str) -> Row {
        Row::sized(&format!("map/{}{part}/{}t", self.variant, self.threads), self.entries)
    }
}

fn cases(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    let count = if options.few { 1 } else { VARIANTS.len() };
    for (variant, cases_of) in &VARIANTS[..count] {
        for threads in 1..=options.threads {
            for entries in options.sizes.iter().copied() {
                let is_long = entries > SHORT_ENTRIES_MAX;
                let effort = is_long.then_some(Effort::LONG[usize::from(options.quick)]);
                cases.extend(cases_of(Shape { variant, threads, entries, effort }));
            }
        }
    }
    if !options.few {
        cases.extend(options.sizes.iter().copied().flat_map(hashes::cases));
    }
    cases
}

fn cases_of<K: Key, S: Seed>(shape: Shape) -> Vec<Case> {
    let Shape { variant, threads, entries, effort } = shape;
    let mut cases = Vec::new();
    for mix in MIXES {
        let mut contenders = maps::contenders::<K, S>(Operations::<1> { mix, threads, entries });
        if variant.is_empty() {
            contenders.extend(mixes::held(mix, threads, entries));
        }
        let row = shape.row(mix.name).compared(move |row| {
            let at_most = bar(OPERATION_MAX, threads);
            compare(row, at_most, at_most);
            row.compare("rcu-map-held", "papaya-held", None);
        });
        cases.push(Case::new(vec![row], contenders));
    }
    let limits = [GROWTH_MAX, OPERATION_MAX, OPERATION_MAX, OPERATION_MAX];
    let rows = course::ROWS.into_iter().zip(limits).map(|(part, limits)| {
        shape.row(part).compared(move |row| {
            let at_most = bar(limits, threads);
            compare(row, at_most, at_most.min(bar(WORDS_MAX, threads)));
        })
    });
    let course = Course { threads, entries };
    let rows = rows.take(course.rows()).collect();
    cases.push(Case { effort, ..Case::new(rows, maps::contenders::<K, S>(course)) });
    if threads == 1 && entries >= MEMORY_ENTRIES_MIN {
        let mut row = shape.row("memory").compared(|row| compare(row, MEMORY_MAX, MEMORY_MAX));
        row.unit = "bytes/entry";
        let contenders = maps::contenders::<K, S>(Memory { entries }).into_iter();
        let contenders = contenders.map(|contender| {
            let name = contender.family;
            contender.in_fresh_child(name)
        });
        let effort = Effort { rounds_min: 1, rounds_max: 1, ..Effort::LONG[0] };
        cases.push(Case { effort: Some(effort), ..Case::new(vec![row], contenders.collect()) });
    }
    cases
}

fn bar([several, one]: [f64; 2], threads: usize) -> f64 {
    if threads > 1 { several } else { one }
}

fn compare(row: &mut Judge<'_>, at_most: f64, words_at_most: f64) {
    let ours = OURS.map(|ours| (ours, at_most)).into_iter().chain([(WORDS, words_at_most)]);
    for (ours, at_most) in ours {
        PEERS.iter().for_each(|peer| row.ratio(ours, peer));
        // Against some of the peers a bar would say little.
        let Some(best) = row.best(&PEERS) else { continue };
        let has_all = PEERS.iter().all(|peer| row.median(peer).is_some());
        row.hold(ours, best, Some(at_most).filter(|_| has_all));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_map.rs"]
mod tests;
