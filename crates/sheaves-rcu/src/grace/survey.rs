//! What readers and grace periods do at this moment, for tools.
//!
//! Everything is read without stopping a thread: each number is right for some moment.

use core::sync::atomic::Ordering;

use sheaves_sys::clock;

use super::period::{self, GENERATIONS};
use super::times::{self, LENGTHS};
use crate::protocol::reader::{self, NESTED, STEP};
use crate::reader::registry::{self, OVERFLOW, Record};
use crate::reader::section::{self, GLOBAL};

/// A thread that is in a read section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The thread's identifier (`gettid`).
    pub thread: i32,
    /// The thread has ended inside the section.
    pub has_ended: bool,
    /// Sections that are open, one within the other.
    pub nesting: u32,
    /// The process's sequence at the begin of the outermost one. A thread that is seen twice with a
    /// number below that of the process is in the same section.
    pub sequence: u64,
}

/// The threads that are in a read section. Allocates nothing.
pub fn readers() -> impl Iterator<Item = Reading> {
    (0..registry::count()).filter_map(|number| {
        let record = registry::record(number);
        let owner = record.owner.load();
        let (state, nesting) = words(record);
        reader::is_reading(state).then(|| Reading {
            thread: owner.thread(),
            has_ended: owner.is_held(),
            nesting,
            sequence: state / STEP,
        })
    })
}

/// A record's state, and its open sections if it is reading.
fn words(record: &Record) -> (u64, u32) {
    // Relaxed, both: for a report.
    let nesting = record.reader.nesting.load(Ordering::Relaxed) & NESTED;
    (record.reader.state.load(Ordering::Relaxed), nesting as u32 + 1)
}

/// The read section that the calling thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// Sections that are open, one within the other.
    pub nesting: u32,
    /// The most nanoseconds since the outermost one began, if that is known.
    pub age_ns_max: Option<u64>,
    /// The least nanoseconds since then.
    pub age_ns_min: u64,
}

/// The read section that the calling thread is in. Async-signal-safe.
pub fn section() -> Option<Section> {
    if !section::is_reading() {
        return None;
    }
    let now = clock::fine_ns();
    let unknown = Section { nesting: 1, age_ns_max: None, age_ns_min: 0 };
    let Some(record) = registry::own() else { return Some(unknown) };
    let (state, nesting) = words(record);
    let age = |sequence| times::began_ns(sequence).map(|began| now.saturating_sub(began));
    let (age_ns_max, younger) = (age(state / STEP), age(state / STEP + 1));
    Some(Section { nesting, age_ns_max, age_ns_min: younger.unwrap_or(0) })
}

/// The grace periods of the default domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// The last one that is over.
    pub completed: u64,
    /// The number of the one that is under way, and its age in nanoseconds.
    pub under_way: Option<(u64, u64)>,
    /// The process's sequence, see [`Reading::sequence`].
    pub sequence: u64,
    /// Open sections of threads without a record, which [`readers`] does not show.
    pub shared_sections: u64,
    /// How many grace periods took less than 2^n microseconds, but not less than 2^(n-1).
    pub lengths: [u64; LENGTHS],
    /// The time of all of them, in nanoseconds.
    pub lengths_ns: u64,
}

/// The state of grace periods. Async-signal-safe.
pub fn survey() -> Survey {
    let completed = GENERATIONS.completed();
    let begun = GENERATIONS.begun();
    let age_ns = clock::fine_ns().saturating_sub(period::began_ns());
    let (lengths, lengths_ns) = times::lengths();
    // Relaxed, both: for a report.
    Survey {
        completed,
        under_way: (begun > completed).then_some((begun, age_ns)),
        sequence: GLOBAL.0.load(Ordering::Relaxed) / STEP,
        shared_sections: OVERFLOW.load(Ordering::Relaxed),
        lengths,
        lengths_ns,
    }
}
