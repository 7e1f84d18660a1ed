//! What the tables are made of: the present answers, and those before them, for rates.

use super::table::Table;
use crate::ask::sample::Sample;
use crate::ask::{Asked, answers};
use crate::command_line::Sort;
use crate::refusal::Refusal;

/// The present sample, and the one before it.
#[derive(Debug, Default)]
pub(super) struct Samples {
    of_all: Vec<Sample>,
    before: Vec<Sample>,
}

impl Samples {
    /// Asks again: the heaps of one process that is open, or all.
    pub(super) fn renew(&mut self, asked: Option<&mut Vec<Asked>>) -> Result<(), Refusal> {
        let now = match asked {
            None => Sample::all(),
            Some(asked) => answers(asked, Sample::of)?.0,
        };
        self.before = core::mem::replace(&mut self.of_all, now);
        Ok(())
    }

    /// The table of one process, or of all.
    pub(super) fn table(&self, is_one: bool, sort: Sort) -> Table {
        if is_one {
            return Table::of_caches(&self.of_all, &self.before, sort);
        }
        Table::of_processes(&self.of_all, &self.before)
    }
}
