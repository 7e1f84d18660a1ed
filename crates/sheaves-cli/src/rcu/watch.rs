//! Follows read sections from one answer to the next.

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::time::Instant;

use crate::ask::answer::Rcu;

/// A section that was seen more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) tid: i32,
    pub(crate) name: String,
    sequence: u64,
    /// It has been open for at least this long.
    pub(crate) age: Duration,
}

/// What was seen so far.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Sequences of threads, and when they were first seen as older than the process's.
    seen: BTreeMap<i32, (u64, Instant)>,
    longest: Option<Section>,
    /// The age of the section whose stack was read last.
    pub(crate) stack_age: Duration,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { seen: BTreeMap::new(), longest: None, stack_age: Duration::ZERO }
    }

    /// Notes an answer. Returns the longest section so far, if it is open.
    pub(crate) fn note(&mut self, answer: &Rcu, now: Instant) -> Option<Section> {
        let mut seen = BTreeMap::new();
        let mut longest_now = None;
        // A section of the present sequence may have begun at any time.
        let older = answer.readers.iter().filter(|reader| reader.sequence < answer.rcu.sequence);
        for reader in older {
            let before =
                self.seen.get(&reader.tid).filter(|(number, _)| *number == reader.sequence);
            // It began before the present grace period.
            let waited_us = answer.rcu.under_way.as_ref().map_or(0, |period| period.age_us);
            let begun = now.checked_sub(Duration::from_micros(waited_us)).unwrap_or(now);
            let since = before.map_or(begun, |(_, since)| begun.min(*since));
            seen.insert(reader.tid, (reader.sequence, since));
            let age = now.duration_since(since);
            if age > self.longest.as_ref().map_or(Duration::ZERO, |longest| longest.age) {
                let (tid, name, sequence) = (reader.tid, reader.name.clone(), reader.sequence);
                self.longest = Some(Section { tid, name, sequence, age });
                longest_now = self.longest.clone();
            }
        }
        self.seen = seen;
        longest_now
    }

    /// The longest section that was seen, if it was seen twice.
    pub(crate) fn longest(&self) -> Option<&Section> {
        self.longest.as_ref()
    }

    /// True if this is the longest section, at some age.
    pub(crate) fn is_longest(&self, section: &Section) -> bool {
        let key = |section: &Section| (section.tid, section.sequence);
        self.longest.as_ref().is_some_and(|longest| key(longest) == key(section))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rcu_watch.rs"]
mod tests;
