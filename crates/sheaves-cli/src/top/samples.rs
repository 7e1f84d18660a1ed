//! What the tables are made of: the present answers, and those before them, for rates.

use super::table::Table;
use crate::ask::sample::{All, Sample};
use crate::ask::{Asked, answers};
use crate::command_line::Sort;
use crate::refusal::Refusal;

/// The present sample, and the one before it.
#[derive(Debug, Default)]
pub(super) struct Samples {
    now: All,
    before: Vec<Sample>,
}

impl Samples {
    /// Asks again: the heaps of one process that is open, or all.
    pub(super) fn renew(&mut self, asked: Option<&mut Vec<Asked>>) -> Result<(), Refusal> {
        let now = match asked {
            None => All::ask(),
            Some(asked) => {
                asked.iter_mut().for_each(Asked::renew);
                All { samples: answers(asked, Sample::of)?.0, silent: Vec::new() }
            }
        };
        self.before = core::mem::replace(&mut self.now, now).samples;
        Ok(())
    }

    /// The table of one process, or of all.
    pub(super) fn table(&self, is_one: bool, sort: Sort) -> Table {
        if is_one {
            return Table::of_caches(&self.now.samples, &self.before, sort);
        }
        Table::of_processes(&self.now, &self.before)
    }
}
