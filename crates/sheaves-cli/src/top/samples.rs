//! What the tables are made of: the present answers, and those before them, for rates.

use super::table::{Sort, Table};
use crate::ask::Asked;
use crate::ask::sample::Sample;
use crate::refusal::Refusal;

/// The present sample, and the one before it.
#[derive(Debug, Default)]
pub(super) struct Samples {
    of_all: Vec<Sample>,
    before: Vec<Sample>,
}

impl Samples {
    /// Asks again: one process that is open, or all.
    pub(super) fn renew(&mut self, asked: Option<&mut Asked>) -> Result<(), Refusal> {
        let now = match asked {
            None => Sample::all(),
            Some(asked) => vec![Sample::of(asked)?],
        };
        self.before = core::mem::replace(&mut self.of_all, now);
        Ok(())
    }

    /// The table of one process, or of all.
    pub(super) fn table(&self, is_one: bool, sort: Sort) -> Table {
        match self.of_all.first() {
            Some(sample) if is_one => Table::of_caches(sample, self.before.first(), sort),
            _ => Table::of_processes(&self.of_all, &self.before),
        }
    }
}
