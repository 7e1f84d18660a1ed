//! Workloads: what is done to a contender, under which name, and how often.
//!
//! A [`Job`] is one workload: a table, a variant of it and a size. It is measured as a whole and
//! yields one row, or several where parts of it are timed on their own. Jobs are plain data, so
//! that a child process can be asked for the same one.

pub(crate) mod batch;
pub(crate) mod crew;
pub(crate) mod name;
pub(crate) mod pair;
pub(crate) mod remote;
pub(crate) mod replace;
pub(crate) mod ring;
pub(crate) mod slabtest;

use core::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::contender::{self, Contender, Kind, Shape};
use crate::failure::{Failure, out_of_memory};
use crate::measure::Sampler;

/// Sizes of a full run, in bytes.
pub(crate) const SIZES: [usize; 12] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
/// Sizes of a quick run, in bytes.
pub(crate) const SIZES_QUICK: [usize; 4] = [8, 64, 1024, 16384];
/// Smallest and largest size that can be asked for, in bytes.
pub(crate) const SIZE_RANGE: core::ops::RangeInclusive<usize> = 8..=16384;
/// Objects that are live at once in the tables that allocate many.
pub(crate) const OBJECTS: usize = 10_000;

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Table {
    /// Allocate and free at once.
    Pair,
    /// Allocate many, then free them all.
    Batch,
    /// The six parts of the kernel's slab_test.
    Slabtest,
    /// Allocate here, free there.
    Remote,
    /// Random replacement of mixed sizes.
    Replace,
}

impl Table {
    /// In the order of the documentation.
    pub(crate) const ALL: [Table; 5] =
        [Table::Pair, Table::Batch, Table::Slabtest, Table::Remote, Table::Replace];

    /// As asked for on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Pair => "pair",
            Table::Batch => "batch",
            Table::Slabtest => "slabtest",
            Table::Remote => "remote",
            Table::Replace => "replace",
        }
    }

    /// The table of that name.
    pub(crate) fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Every workload of the table, for these sizes and up to so many threads.
    pub(crate) fn jobs(self, sizes: &[usize], threads: usize) -> Vec<Job> {
        match self {
            Table::Pair => pair::jobs(sizes),
            Table::Batch => batch::jobs(sizes),
            Table::Slabtest => slabtest::jobs(sizes),
            Table::Remote => remote::jobs(sizes, threads),
            Table::Replace => replace::jobs(threads),
        }
    }

    /// Whether a contender takes part: the floor is the cost of a queue, and only one table has it.
    pub(crate) fn admits(self, kind: Kind) -> bool {
        kind != Kind::Floor || self == Table::Remote
    }
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The table it belongs to.
    pub(crate) table: Table,
    /// Which of the table's variants; empty where there is only one.
    pub(crate) variant: String,
    /// Size of the objects in bytes; none where sizes are mixed.
    pub(crate) size: Option<usize>,
    /// Threads that allocate, free, or both.
    pub(crate) threads: usize,
}

impl Job {
    /// The names of its rows, in the order in which a sample lists them.
    pub(crate) fn rows(&self) -> Vec<String> {
        let parts: &[&str] = match self.table {
            Table::Batch => &["batch", "batch-alloc", "batch-free"],
            Table::Slabtest => return slabtest::rows(self),
            _ => &[self.table.name()],
        };
        parts.iter().map(|part| name::join(part, &self.variant, self.size)).collect()
    }

    /// The name of the first row, which stands for the whole.
    pub(crate) fn name(&self) -> String {
        self.rows().swap_remove(0)
    }

    fn shape(&self) -> Shape {
        self.size.map_or(Shape::Mixed, Shape::One)
    }

    /// Makes the contender and what takes samples of it.
    pub(crate) fn sampler(&self, kind: Kind) -> Result<Sampler, Failure> {
        contender::visit(kind, self.shape(), Prepare { job: self })?
    }
}

/// Binds a workload to the contender's type.
struct Prepare<'a> {
    job: &'a Job,
}

impl contender::Visitor for Prepare<'_> {
    type Out = Result<Sampler, Failure>;

    fn visit<C: Contender>(self, contender: C) -> Self::Out {
        match self.job.table {
            Table::Pair => pair::sampler(self.job, contender),
            Table::Batch => batch::sampler(self.job, contender),
            Table::Slabtest => slabtest::sampler(self.job, contender),
            Table::Remote => remote::sampler(self.job, contender),
            Table::Replace => replace::sampler(self.job, contender),
        }
    }
}

/// Writes the first byte of a fresh object, as any program would, and keeps the compiler from
/// concluding that the object is never used.
#[inline]
pub(crate) fn touch(object: *mut u8) {
    if object.is_null() {
        out_of_memory();
    }
    // SAFETY: the object is live and at least one byte; volatile, so that the write is not dropped.
    unsafe { object.write_volatile(14) };
    black_box(object);
}

/// Nanoseconds per operation.
pub(crate) fn per_operation(time: core::time::Duration, operations: usize) -> f64 {
    time.as_nanos() as f64 / operations as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_again() {
        for table in Table::ALL {
            assert_eq!(Table::named(table.name()), Some(table));
        }
        assert_eq!(Table::named("nonsense"), None);
    }

    #[test]
    fn rows_follow_the_naming() {
        let names: Vec<String> =
            Table::ALL.iter().flat_map(|table| table.jobs(&[64], 2)).map(|j| j.name()).collect();
        for name in
            ["pair/64", "batch/shuffled/64", "remote/1to1/64", "replace/2t", "slabtest/2/64"]
        {
            assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
        }
    }

    #[test]
    fn every_job_yields_as_many_numbers_as_rows() {
        for table in Table::ALL {
            for job in table.jobs(&[64], 2) {
                for kind in [Kind::Cache, Kind::Glibc] {
                    let mut sampler = job.sampler(kind).unwrap();
                    let values = sampler().unwrap();
                    assert_eq!(values.len(), job.rows().len(), "{}", job.name());
                    assert!(values.iter().all(|value| *value >= 0.0 && value.is_finite()));
                }
            }
        }
    }

    #[test]
    fn a_job_survives_the_way_to_a_child() {
        let job = Table::Remote.jobs(&[64], 2).remove(0);
        let text = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
    }
}
