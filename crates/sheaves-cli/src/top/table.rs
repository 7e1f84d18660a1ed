//! The tables: of processes, and of the caches of one.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;
use core::fmt::{self, Write as _};

use crate::ask::answer::Cache;
use crate::ask::sample::{All, Sample, Silent};
use crate::command_line::Sort;
use crate::output::count;

/// Lines about the whole, and a table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) lines: Vec<String>,
    /// Names of the columns, and how wide they are at least. The first one is left-aligned.
    pub(crate) columns: &'static [(&'static str, usize)],
    pub(crate) rows: Vec<Vec<String>>,
    /// Processes of the rows.
    pub(crate) pids: Vec<u32>,
    /// How much wider than its column the longest name is.
    more: usize,
}

/// Names that are longer are not in line.
const NAME_MAX: usize = 44;

const OF_PROCESSES: &[(&str, usize)] = &[
    ("NAME", 15),
    ("PID", 7),
    ("RSS", 6),
    ("USED", 6),
    ("CACHED", 6),
    ("DIRTY", 6),
    ("HEAP", 6),
    ("DEFER", 6),
    ("READ", 4),
    ("GP/s", 6),
];

const OF_CACHES: &[(&str, usize)] = &[
    ("NAME", 15),
    ("OBJS", 9),
    ("ACTIVE", 9),
    ("USE", 4),
    ("SIZE", 6),
    ("SLABS", 6),
    ("BYTES", 6),
    ("REFILL/s", 8),
    ("FLUSH/s", 7),
    ("SLOTS", 7),
    ("DEPOT", 7),
    ("DEFER", 7),
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
                sample.process.full_name(),
                pid.to_string(),
                bytes(sample.resident_bytes),
                total("used_bytes"),
                total("cached_bytes"),
                total("dirty_bytes"),
                total("heap_bytes"),
                bytes(statistics.rcu.deferred_bytes),
                sample.rcu.readers.len().to_string(),
                rate(sample.rate(before, |sample| sample.statistics.rcu.grace_periods)),
            ]
        };
        let processes: BTreeSet<_> = sorted.iter().map(|sample| sample.process.pid).collect();
        let mut line = format!("{} on Sheaves", count(processes.len() as u64, "process"));
        if !all.silent.is_empty() {
            let silent = all.silent.len();
            let _ = write!(line, ", and {silent} without an answer");
        }
        let pids = sorted.iter().map(|sample| sample.process.pid);
        Self {
            lines: vec![line],
            columns: OF_PROCESSES,
            rows: sorted.iter().map(row).chain(all.silent.iter().map(row_of_silent)).collect(),
            pids: pids.chain(all.silent.iter().map(|silent| silent.pid)).collect(),
            more: 0,
        }
        .in_line()
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
        Self { lines, columns: OF_CACHES, rows, pids: Vec::new(), more: 0 }.in_line()
    }

    /// The same, with room for the names.
    fn in_line(mut self) -> Self {
        let names = self.rows.iter().map(|row| row[0].chars().count());
        let longest = names.filter(|width| *width <= NAME_MAX).max().unwrap_or(0);
        self.more = longest.saturating_sub(self.columns[0].1);
        self
    }

    /// A line of cells, in columns.
    pub(crate) fn line(&self, cells: &[String]) -> String {
        let widths = self.columns.iter().map(|(_, width)| *width).enumerate();
        let cell = |((index, width), cell): ((usize, usize), &String)| match index {
            0 => format!("{cell:0$}", width + self.more),
            _ => format!("{cell:>width$}"),
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
    vec![silent.name.clone(), silent.pid.to_string(), "  does not answer".to_owned()]
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
            self.name.clone(),
            cache.objects().to_string(),
            cache.objects_out.to_string(),
            format!("{}%", cache.use_percent()),
            cache.object_bytes.to_string(),
            cache.slabs.to_string(),
            bytes(cache.slab_bytes),
            rate(self.refills),
            rate(self.flushes),
            cache.objects_in_slots.to_string(),
            cache.objects_in_depot.to_string(),
            cache.objects_deferred.to_string(),
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
    let statistics = &sample.statistics;
    let total = |name: &str| bytes(statistics.total(name));
    let limit = statistics.limit.bytes.map_or_else(|| "none".to_owned(), bytes);
    let near = if statistics.limit.is_near { " (near)" } else { "" };
    let mut lines = vec![
        format!(
            "{}, up {}, resident {}, engine {}, {} by {}",
            sample.process,
            seconds(statistics.uptime_ms),
            bytes(sample.resident_bytes),
            statistics.engine,
            count(statistics.slots, "slot"),
            statistics.slot
        ),
        format!(
            "heap: used {}, cached {}, dirty {}, returned {}, mapped {}, {} of {}; \
             limit {limit}{near}",
            total("used_bytes"),
            total("cached_bytes"),
            total("dirty_bytes"),
            total("returned_bytes"),
            total("heap_bytes"),
            count(statistics.total("large_blocks"), "large block"),
            total("large_bytes")
        ),
    ];
    lines.extend(rcu_lines(sample, before));
    let percpu = statistics.percpu.clone().unwrap_or_default();
    lines.push(format!(
        "per-CPU: {}, {} in each of {}; keeper: {}, {} ms",
        count(percpu.objects, "object"),
        bytes(percpu.committed_bytes),
        count(percpu.slots_used, "slot"),
        count(statistics.keeper.looks, "look"),
        statistics.keeper.busy_us / 1000
    ));
    lines
}

/// What is to be said of grace periods and of readers.
pub(crate) fn rcu_lines(sample: &Sample, before: Option<&Sample>) -> [String; 2] {
    let (statistics, rcu) = (&sample.statistics.rcu, &sample.rcu);
    let mut periods = format!("rcu: {}", count(statistics.grace_periods, "grace period"));
    if statistics.grace_periods != 0 {
        let rate = rate(sample.rate(before, |sample| sample.statistics.rcu.grace_periods));
        let _ = write!(periods, ", {rate}/s of {} on average", mean_length(sample, before));
    }
    match statistics.deferred_objects {
        0 => periods += "; nothing is deferred",
        objects => {
            let (objects, size) = (count(objects, "object"), bytes(statistics.deferred_bytes));
            let age = statistics.oldest_age_ms;
            let _ = write!(periods, "; {objects} deferred, {size}, for {age} ms");
        }
    }
    let oldest = rcu.readers.iter().min_by_key(|reader| reader.sequence);
    let readers = oldest.map_or_else(
        || "no thread in a read section".to_owned(),
        |oldest| {
            let threads = count(rcu.readers.len() as u64, "thread");
            format!("{threads} in a read section, the oldest {} ({})", oldest.tid, oldest.name)
        },
    );
    let under_way = rcu.rcu.under_way.as_ref().map_or_else(
        || "no grace period under way".to_owned(),
        |period| format!("a grace period under way for {} ms", period.age_us / 1000),
    );
    [periods, format!("readers: {readers}; {under_way}")]
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
    while value >= 1000.0 && unit + 1 < UNITS.len() {
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
