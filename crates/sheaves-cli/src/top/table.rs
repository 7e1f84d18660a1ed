//! The tables: of processes, and of the caches of one.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;
use core::fmt::{self, Write as _};

use crate::ask::answer::Cache;
use crate::ask::sample::{All, Sample, Silent};
use crate::command_line::Sort;

/// Lines about the whole, and a table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) lines: Vec<String>,
    /// Names of the columns, and how wide they are at least. Names are in the last one,
    /// left-aligned.
    pub(crate) columns: &'static [(&'static str, usize)],
    pub(crate) rows: Vec<Vec<String>>,
    /// Processes of the rows.
    pub(crate) pids: Vec<u32>,
}

const OF_PROCESSES: &[(&str, usize)] = &[
    ("PID", 7),
    ("USED", 8),
    ("CACHED", 8),
    ("DIRTY", 8),
    ("HEAP", 8),
    ("DEFERRED", 8),
    ("READERS", 7),
    ("GP/s", 8),
    ("ENGINE", 8),
    ("NAME", 15),
];

const OF_CACHES: &[(&str, usize)] = &[
    ("OBJS", 9),
    ("ACTIVE", 9),
    ("USE", 4),
    ("SIZE", 7),
    ("SLABS", 6),
    ("BYTES", 8),
    ("SLOTS", 7),
    ("DEPOT", 7),
    ("DEFER", 7),
    ("REFILL/s", 8),
    ("FLUSH/s", 8),
    ("NAME", 20),
];

impl Table {
    /// All processes, the largest first, and then those that do not answer.
    pub(crate) fn of_processes(all: &All, before: &[Sample]) -> Self {
        let mut sorted: Vec<_> = all.samples.iter().collect();
        sorted.sort_by_key(|sample| Reverse(sample.statistics.total("used_bytes")));
        let row = |sample: &&Sample| {
            let (pid, before) = (sample.process.pid, sample.among(before));
            let statistics = &sample.statistics;
            let total = |name: &str| bytes(statistics.total(name));
            vec![
                pid.to_string(),
                total("used_bytes"),
                total("cached_bytes"),
                total("dirty_bytes"),
                total("heap_bytes"),
                bytes(statistics.rcu.deferred_bytes),
                sample.rcu.readers.len().to_string(),
                rate(sample.rate(before, |sample| sample.statistics.rcu.grace_periods)),
                statistics.engine.clone(),
                sample.process.full_name(),
            ]
        };
        let processes: BTreeSet<_> = sorted.iter().map(|sample| sample.process.pid).collect();
        let mut line = format!("sheaves: {} that answer", count(processes.len(), "process"));
        if !all.silent.is_empty() {
            let _ = write!(line, ", {} that do not", all.silent.len());
        }
        let pids = sorted.iter().map(|sample| sample.process.pid);
        Self {
            lines: vec![line],
            columns: OF_PROCESSES,
            rows: sorted.iter().map(row).chain(all.silent.iter().map(row_of_silent)).collect(),
            pids: pids.chain(all.silent.iter().map(|silent| silent.pid)).collect(),
        }
    }

    /// The caches of all heaps of a process, sorted.
    pub(crate) fn of_caches(samples: &[Sample], before: &[Sample], sort: Sort) -> Self {
        let heaps = samples.iter().map(|sample| (sample, sample.among(before)));
        let lines = heaps.clone().flat_map(|(sample, before)| head(sample, before)).collect();
        let mut caches: Vec<_> = heaps
            .flat_map(|(sample, before)| {
                let earlier = before.map(|before| before.statistics.caches.iter());
                let earlier: BTreeMap<_, _> =
                    earlier.into_iter().flatten().map(|cache| (&*cache.name, cache)).collect();
                let caches = sample.statistics.caches.iter();
                caches.map(move |cache| {
                    Row::new(cache, sample, before, earlier.get(&*cache.name).copied())
                })
            })
            .collect();
        caches.sort_by(|one, other| one.name.cmp(&other.name));
        caches.sort_by_key(|row| {
            let cache = row.cache;
            Reverse(match sort {
                Sort::Active => cache.objects_out,
                Sort::ObjectsPerSlab => cache.objects() / cache.slabs.max(1),
                Sort::Bytes => cache.slab_bytes,
                Sort::Flushes => (row.flushes * 1000.0) as u64,
                Sort::Slabs => cache.slabs,
                Sort::Name => 0,
                Sort::Objects => cache.objects(),
                Sort::PerCpu => cache.objects_in_slots,
                Sort::Refills => (row.refills * 1000.0) as u64,
                Sort::Size => cache.object_bytes,
                Sort::Use => cache.use_percent(),
            })
        });
        let rows = caches.iter().map(Row::cells).collect();
        Self { lines, columns: OF_CACHES, rows, pids: Vec::new() }
    }

    /// A line of cells, in columns.
    pub(crate) fn line(&self, cells: &[String]) -> String {
        let last = self.columns.len() - 1;
        let widths = self.columns.iter().map(|(_, width)| *width).enumerate();
        let cell = |((index, width), cell): ((usize, usize), &String)| match index == last {
            true => cell.clone(),
            false => format!("{cell:>width$}"),
        };
        widths.zip(cells).map(cell).collect::<Vec<_>>().join(" ")
    }

    /// The names of the columns.
    pub(crate) fn names(&self) -> String {
        self.line(&self.columns.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>())
    }
}

/// The row of a process of which only number and name are known.
fn row_of_silent(silent: &Silent) -> Vec<String> {
    let mut cells = vec!["-".to_owned(); OF_PROCESSES.len()];
    cells[0] = silent.pid.to_string();
    cells[OF_PROCESSES.len() - 1] = format!("{} (does not answer)", silent.name);
    cells
}

/// A number of things, in words.
fn count(number: usize, thing: &str) -> String {
    let plural = if thing.ends_with('s') { "es" } else { "s" };
    format!("{number} {thing}{}", if number == 1 { "" } else { plural })
}

/// A cache, in the table of its process.
struct Row<'a> {
    cache: &'a Cache,
    /// With the object that has it, where several have a heap.
    name: String,
    /// Per second.
    refills: f64,
    /// Per second.
    flushes: f64,
}

impl<'a> Row<'a> {
    fn new(
        cache: &'a Cache,
        sample: &Sample,
        before: Option<&Sample>,
        earlier: Option<&Cache>,
    ) -> Self {
        let rate =
            |count: fn(&Cache) -> u64| {
                let is_now = |of: &Sample| core::ptr::eq(of, sample);
                sample.rate(before, |of| {
                    if is_now(of) { count(cache) } else { earlier.map_or(0, count) }
                })
            };
        let name = match &sample.object {
            None => cache.name.clone(),
            Some(object) => format!("{}, {object}", cache.name),
        };
        let (refills, flushes) = (rate(|cache| cache.refills), rate(|cache| cache.flushes));
        Self { cache, name, refills, flushes }
    }

    fn cells(&self) -> Vec<String> {
        let cache = self.cache;
        vec![
            cache.objects().to_string(),
            cache.objects_out.to_string(),
            format!("{}%", cache.use_percent()),
            cache.object_bytes.to_string(),
            cache.slabs.to_string(),
            bytes(cache.slab_bytes),
            cache.objects_in_slots.to_string(),
            cache.objects_in_depot.to_string(),
            cache.objects_deferred.to_string(),
            rate(self.refills),
            rate(self.flushes),
            self.name.clone(),
        ]
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out, "{}", self.names())?;
        self.rows.iter().try_for_each(|row| writeln!(out, "{}", self.line(row)))
    }
}

/// What is to be said of a process as a whole.
fn head(sample: &Sample, before: Option<&Sample>) -> Vec<String> {
    let (statistics, rcu) = (&sample.statistics, &sample.rcu);
    let total = |name: &str| bytes(statistics.total(name));
    let limit = statistics.limit.bytes.map_or_else(|| "none".to_owned(), bytes);
    let near = if statistics.limit.is_near { " (near)" } else { "" };
    let mut lines = vec![
        format!(
            "{}, up {}, engine {}, {} slots by {}",
            sample.process,
            seconds(statistics.uptime_ms),
            statistics.engine,
            statistics.slots,
            statistics.slot
        ),
        format!(
            "heap: used {}, cached {}, dirty {}, returned {}, mapped {}, {} large blocks of {}; \
             limit {limit}{near}",
            total("used_bytes"),
            total("cached_bytes"),
            total("dirty_bytes"),
            total("returned_bytes"),
            total("heap_bytes"),
            statistics.total("large_blocks"),
            total("large_bytes")
        ),
        format!(
            "rcu: {} grace periods, {}/s of {} on average; deferred {} objects, {}, for {} ms",
            statistics.rcu.grace_periods,
            rate(sample.rate(before, |sample| sample.statistics.rcu.grace_periods)).trim(),
            mean_length(sample, before),
            statistics.rcu.deferred_objects,
            bytes(statistics.rcu.deferred_bytes),
            statistics.rcu.oldest_age_ms
        ),
    ];
    let oldest = rcu.readers.iter().min_by_key(|reader| reader.sequence);
    let reader = oldest.map_or_else(
        || "none".to_owned(),
        |oldest| format!("{} ({}) of {}", oldest.tid, oldest.name, rcu.readers.len()),
    );
    let under_way = rcu.rcu.under_way.as_ref().map_or_else(
        || "no grace period under way".to_owned(),
        |period| format!("grace period under way for {} ms", period.age_us / 1000),
    );
    lines.push(format!("readers: oldest thread {reader}; {under_way}"));
    let percpu = statistics.percpu.clone().unwrap_or_default();
    lines.push(format!(
        "per-CPU: {} objects, {} in each of {} slots; keeper: {} looks, {} ms",
        percpu.objects,
        bytes(percpu.committed_bytes),
        percpu.slots_used,
        statistics.keeper.looks,
        statistics.keeper.busy_us / 1000
    ));
    lines
}

/// The mean length of the grace periods since an earlier sample.
fn mean_length(sample: &Sample, before: Option<&Sample>) -> String {
    let sums = |sample: &Sample| {
        let lengths = &sample.rcu.rcu;
        (lengths.count(), lengths.lengths_us)
    };
    let ((count, us), (count_before, us_before)) = (sums(sample), before.map_or((0, 0), sums));
    let mean = us.saturating_sub(us_before).checked_div(count.saturating_sub(count_before));
    format!("{} us", mean.unwrap_or(0))
}

/// Bytes in at most five characters and their unit.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes}B") } else { format!("{value:.1}{}", UNITS[unit]) }
}

fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn seconds(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
