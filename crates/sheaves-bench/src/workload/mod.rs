//! Workloads: what is done to a contender, under which name, and how often.
//!
//! A [`Job`] is one workload: a table, a variant of it and a size. It is measured as a whole and
//! yields one row, or several where parts of it are timed on their own. Jobs are plain data, so
//! that a child process can be asked for the same one.

pub(crate) mod batch;
pub(crate) mod bulk;
pub(crate) mod counter;
pub(crate) mod crew;
pub(crate) mod dispose;
pub(crate) mod flood;
pub(crate) mod map;
pub(crate) mod measures;
pub(crate) mod name;
pub(crate) mod pair;
pub(crate) mod percpu;
pub(crate) mod readers;
pub(crate) mod remote;
pub(crate) mod replace;
pub(crate) mod ring;
pub(crate) mod slabtest;
pub(crate) mod synchronize;

use core::hint::black_box;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::contender::{self, Contender, Kind, Role, Shape};
use crate::failure::{Failure, out_of_memory};
use crate::measure::{Effort, Sampler};

/// Sizes of a full run, in bytes.
pub(crate) const SIZES: [usize; 12] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
/// Sizes of a quick run, in bytes.
pub(crate) const SIZES_QUICK: [usize; 4] = [8, 64, 1024, 16384];
/// Smallest and largest size that can be asked for, in bytes.
pub(crate) const SIZE_RANGE: RangeInclusive<usize> = 8..=16384;
/// Threads that can be asked for in most tables.
const THREADS_MAX: usize = 1024;
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
    /// Per-CPU memory.
    Percpu,
    /// Adding to one number from several threads.
    Counter,
    /// Reading what others replace.
    Readers,
    /// Waiting for those who read.
    Synchronize,
    /// Many threads at one hash map.
    Map,
    /// Having an object freed once readers are gone.
    Dispose,
    /// Having many objects freed so.
    Bulk,
}

impl Table {
    /// In the order of the documentation.
    pub(crate) const ALL: [Table; 12] = [
        Table::Pair,
        Table::Batch,
        Table::Slabtest,
        Table::Remote,
        Table::Replace,
        Table::Percpu,
        Table::Counter,
        Table::Readers,
        Table::Synchronize,
        Table::Map,
        Table::Dispose,
        Table::Bulk,
    ];

    /// As asked for on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Pair => "pair",
            Table::Batch => "batch",
            Table::Slabtest => "slabtest",
            Table::Remote => "remote",
            Table::Replace => "replace",
            Table::Percpu => "percpu",
            Table::Counter => "counter",
            Table::Readers => "readers",
            Table::Synchronize => "synchronize",
            Table::Map => "map",
            Table::Dispose => "dispose",
            Table::Bulk => "bulk",
        }
    }

    /// The table of that name.
    pub(crate) fn named(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The first parts of the names of its rows: the table's own name, or those of its patterns.
    pub(crate) fn row_parts(self) -> Vec<&'static str> {
        match self {
            Table::Percpu => percpu::variant::Pattern::ALL.map(|pattern| pattern.name()).to_vec(),
            Table::Readers => readers::parts(),
            Table::Synchronize => synchronize::PARTS.to_vec(),
            _ => vec![self.name()],
        }
    }

    /// The sizes of a run, in ascending order: bytes, or numbers of filters.
    pub(crate) fn sizes(self, quick: bool) -> &'static [usize] {
        match (self, quick) {
            (Table::Percpu, false) => &percpu::FILTERS,
            (Table::Percpu, true) => &percpu::FILTERS_QUICK,
            (Table::Map, _) => &map::ENTRIES,
            (_, false) => &SIZES,
            (_, true) => &SIZES_QUICK,
        }
    }

    /// The sizes that can be asked for, and what they are.
    pub(crate) fn size_range(self) -> (RangeInclusive<usize>, &'static str) {
        match self {
            Table::Percpu => (percpu::FILTERS_RANGE, "filters"),
            Table::Map => (map::ENTRIES_RANGE, "entries"),
            _ => (SIZE_RANGE, "bytes"),
        }
    }

    /// How many rounds its workloads get.
    pub(crate) fn effort(self, quick: bool) -> Effort {
        match (self, quick) {
            (Table::Percpu | Table::Bulk, false) => Effort::LONG,
            (Table::Percpu | Table::Bulk, true) => Effort::LONG_QUICK,
            (Table::Synchronize | Table::Dispose, false) => Effort::WAITS,
            (Table::Synchronize | Table::Dispose, true) => Effort::WAITS_QUICK,
            (_, false) => Effort::FULL,
            (_, true) => Effort::QUICK,
        }
    }

    /// Threads of a run that is not asked for a number, and how many can be asked for.
    pub(crate) fn threads(self) -> (usize, RangeInclusive<usize>) {
        match self {
            Table::Synchronize => (synchronize::REGISTERED_MAX, 2..=synchronize::REGISTERED_MAX),
            _ => (2, 1..=THREADS_MAX),
        }
    }

    /// Every workload of the table, for these sizes and up to `threads` threads.
    pub(crate) fn jobs(self, sizes: &[usize], threads: usize, quick: bool) -> Vec<Job> {
        match self {
            Table::Pair => pair::jobs(sizes),
            Table::Batch => batch::jobs(sizes),
            Table::Slabtest => slabtest::jobs(sizes),
            Table::Remote => remote::jobs(sizes, threads),
            Table::Replace => replace::jobs(threads),
            Table::Percpu => percpu::jobs(sizes, threads, quick),
            Table::Counter => counter::jobs(threads),
            Table::Readers => readers::jobs(threads, quick),
            Table::Synchronize => synchronize::jobs(threads, quick),
            Table::Map => map::jobs(sizes, threads),
            Table::Dispose => dispose::jobs(),
            Table::Bulk => bulk::jobs(),
        }
    }

    /// Whether a contender takes part. The floor is what a workload costs without what it is about,
    /// and only two tables have one.
    pub(crate) fn admits(self, kind: Kind) -> bool {
        match self {
            Table::Dispose => return contender::dispose::takes(kind),
            Table::Bulk => return contender::bulk::takes(kind),
            _ => {}
        }
        match kind.role() {
            Role::Reclaim => false,
            Role::PerCpu => self == Table::Percpu,
            Role::Count => self == Table::Counter,
            Role::Map => self == Table::Map,
            Role::Floor => self == Table::Remote,
            role if role.reads() || role.waits() => match self {
                Table::Readers => role.reads(),
                Table::Synchronize => role.waits(),
                _ => false,
            },
            _ => self.has_objects(),
        }
    }

    /// Whether its contenders hand out ordinary objects.
    fn has_objects(self) -> bool {
        use Table::{Batch, Pair, Remote, Replace, Slabtest};
        matches!(self, Pair | Batch | Slabtest | Remote | Replace)
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
    fn new(
        table: Table,
        variant: impl Into<String>,
        size: impl Into<Option<usize>>,
        threads: usize,
    ) -> Job {
        Job { table, variant: variant.into(), size: size.into(), threads }
    }

    /// The names of its rows, in the order in which a sample lists them.
    pub(crate) fn rows(&self) -> Vec<String> {
        let parts: &[&str] = match self.table {
            Table::Batch => &["batch", "batch-alloc", "batch-free"],
            Table::Slabtest => return slabtest::rows(self),
            // The variant begins with the pattern, which is the first part of the name.
            Table::Percpu => return vec![name::join(&self.variant, "", self.size)],
            Table::Readers => return readers::rows(self),
            Table::Synchronize => return synchronize::rows(self),
            Table::Dispose => return dispose::rows(self),
            Table::Bulk => return bulk::rows(self),
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

    /// Whether a contender of the table takes part in this workload of it.
    pub(crate) fn admits(&self, kind: Kind) -> bool {
        match self.table {
            Table::Counter => counter::admits(self, kind),
            Table::Readers => readers::admits(self, kind),
            Table::Synchronize => synchronize::admits(self, kind),
            Table::Dispose => dispose::admits(self, kind),
            _ => true,
        }
    }

    /// Why a contender that would take part is left out, if so.
    pub(crate) fn refusal(&self, kind: Kind) -> Option<String> {
        if self.table == Table::Percpu { percpu::refusal(self, kind) } else { None }
    }

    /// Makes the contender and what takes samples of it.
    pub(crate) fn sampler(&self, kind: Kind) -> Result<Sampler, Failure> {
        match self.table {
            Table::Percpu => return percpu::sampler(self, kind),
            Table::Counter => return counter::sampler(self, kind),
            Table::Readers => return readers::sampler(self, kind),
            Table::Synchronize => return synchronize::sampler(self, kind),
            Table::Map => return map::sampler(self, kind),
            Table::Dispose => return dispose::sampler(self, kind),
            Table::Bulk => return bulk::sampler(self, kind),
            _ => {}
        }
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
            _ => Err(Failure::run("no ordinary objects take part in this table")),
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

/// The unit of a row.
pub(crate) fn unit_of(row: &str) -> &'static str {
    measures::of_row(row).map_or("ns/op", |measured| measured.unit)
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
        let names: Vec<String> = Table::ALL
            .iter()
            .flat_map(|table| table.jobs(&[64], 2, true))
            .map(|j| j.name())
            .collect();
        for name in
            ["pair/64", "batch/shuffled/64", "remote/1to1/64", "replace/2t", "slabtest/2/64"]
        {
            assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
        }
    }

    #[test]
    fn every_job_yields_as_many_numbers_as_rows() {
        let kinds = [
            Kind::Cache,
            Kind::Glibc,
            Kind::Fixed,
            Kind::MutexPool,
            Kind::Sharded,
            Kind::Rcu,
            Kind::Direct,
            Kind::RcuMap,
            Kind::Sheaves,
            Kind::PerObject,
        ];
        for table in Table::ALL {
            for job in table.jobs(&[64], 2, true) {
                for kind in kinds.into_iter().filter(|kind| table.admits(*kind)) {
                    let mut sampler = job.sampler(kind).unwrap();
                    let values = sampler.sample().unwrap();
                    assert_eq!(values.len(), job.rows().len(), "{}", job.name());
                    assert!(values.iter().all(|value| *value >= 0.0 && value.is_finite()));
                }
            }
        }
    }

    #[test]
    fn a_job_survives_the_way_to_a_child() {
        let job = Table::Remote.jobs(&[64], 2, true).remove(0);
        let text = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
    }
}
