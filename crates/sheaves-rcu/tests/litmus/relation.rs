//! Relations between at most 64 events, and the operations on them that the model is written in.

use core::ops::{BitAnd, BitOr, Sub};

/// A set of events: bit `n` is event `n`.
pub(crate) type Set = u64;

/// How many events there may be.
pub(crate) const EVENTS_MAX: usize = 64;

/// Pairs of events. Row `a` is the set of all `b` with `a -> b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relation {
    rows: Vec<Set>,
}

impl Relation {
    /// Relates none of `events` events.
    pub(crate) fn empty(events: usize) -> Relation {
        assert!(events <= EVENTS_MAX);
        Relation { rows: vec![0; events] }
    }

    /// Relates all pairs for which `holds`.
    pub(crate) fn of(events: usize, holds: impl Fn(usize, usize) -> bool) -> Relation {
        let mut relation = Relation::empty(events);
        for from in 0..events {
            (0..events).filter(|to| holds(from, *to)).for_each(|to| relation.insert(from, to));
        }
        relation
    }

    /// Relates each event of a set to itself.
    pub(crate) fn identity(events: usize, set: Set) -> Relation {
        Relation::of(events, |from, to| from == to && set >> from & 1 == 1)
    }

    pub(crate) fn insert(&mut self, from: usize, to: usize) {
        self.rows[from] |= 1 << to;
    }

    pub(crate) fn has(&self, from: usize, to: usize) -> bool {
        self.rows[from] >> to & 1 == 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| *row == 0)
    }

    /// The pairs the other way round.
    pub(crate) fn inverse(&self) -> Relation {
        Relation::of(self.rows.len(), |from, to| self.has(to, from))
    }

    /// A step of this and then one of `next`.
    pub(crate) fn then(&self, next: &Relation) -> Relation {
        let row = |row: &Set| {
            let middles = (0..next.rows.len()).filter(|middle| row >> middle & 1 == 1);
            middles.fold(0, |reached, middle| reached | next.rows[middle])
        };
        Relation { rows: self.rows.iter().map(row).collect() }
    }

    /// A step of this, or none.
    pub(crate) fn maybe(&self) -> Relation {
        self | &Relation::identity(self.rows.len(), Set::MAX)
    }

    /// Steps of this, any number of them.
    pub(crate) fn repeated(&self) -> Relation {
        let mut reached = self.maybe();
        loop {
            let further = reached.then(&reached);
            if further == reached {
                return reached;
            }
            reached = further;
        }
    }

    /// The pairs that begin in one set and end in another.
    pub(crate) fn between(&self, from: Set, to: Set) -> Relation {
        let rows = self.rows.iter().enumerate();
        let keep = |(event, row): (usize, &Set)| if from >> event & 1 == 1 { row & to } else { 0 };
        Relation { rows: rows.map(keep).collect() }
    }

    /// Does no event come back to itself?
    pub(crate) fn is_acyclic(&self) -> bool {
        let cycles = self.then(&self.repeated());
        (0..self.rows.len()).all(|event| !cycles.has(event, event))
    }

    /// Combines the rows of two relations.
    fn zip(&self, other: &Relation, combine: fn(Set, Set) -> Set) -> Relation {
        let pairs = self.rows.iter().zip(&other.rows);
        Relation { rows: pairs.map(|(a, b)| combine(*a, *b)).collect() }
    }
}

impl BitOr for &Relation {
    type Output = Relation;

    fn bitor(self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a | b)
    }
}

impl BitAnd for &Relation {
    type Output = Relation;

    fn bitand(self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a & b)
    }
}

impl Sub for &Relation {
    type Output = Relation;

    fn sub(self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a & !b)
    }
}
