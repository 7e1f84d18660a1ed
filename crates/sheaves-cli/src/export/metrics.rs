//! The metrics: their names, and where their values come from.

use core::fmt;

use alloc::collections::{BTreeMap, BTreeSet};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode as encode_text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use crate::ask::PRELOAD;
use crate::ask::answer::Cache;
use crate::ask::sample::{All, Sample};

/// Caches of all processes together: each has about 2 KiB of text.
const CACHES_MAX: usize = 1 << 13;

/// The text for Prometheus.
pub(crate) fn encode(mut all: All) -> String {
    // A hostile process can have several pages of one object.
    let mut seen = BTreeSet::new();
    all.samples.retain(|sample| seen.insert(labels(sample)));
    let caches_max = CACHES_MAX / all.samples.len().max(1);
    all.samples.iter_mut().for_each(|sample| prepare(&mut sample.statistics.caches, caches_max));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Samples(all)));
    let mut text = String::new();
    // A string takes everything.
    let _ = encode_text(&mut text, &registry);
    text
}

/// Leaves the caches with the most memory, each with a name of its own: names are chosen by the
/// programs, and two lines with the same labels make the whole text invalid.
fn prepare(caches: &mut Vec<Cache>, most: usize) {
    if caches.len() > most {
        caches.sort_by_key(|cache| core::cmp::Reverse(cache.slab_bytes));
        caches.truncate(most);
    }
    let (mut counts, mut names) = (BTreeMap::<String, u32>::new(), BTreeSet::new());
    for cache in caches {
        let count = counts.entry(cache.name.clone()).or_insert(1);
        let name = cache.name.clone();
        // A program may have a cache of the new name, too.
        while !names.insert(cache.name.clone()) {
            *count += 1;
            cache.name = format!("{name}#{count}");
        }
    }
}

#[derive(Debug)]
struct Samples(All);

type Labels = Vec<(&'static str, String)>;

/// A value of a process; `None` where it has none.
struct OfProcess {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    value: fn(&Sample) -> Option<f64>,
}

const fn gauge(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    value: fn(&Sample) -> Option<f64>,
) -> OfProcess {
    OfProcess { name, help, unit, kind: MetricType::Gauge, value }
}

const fn counter(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    value: fn(&Sample) -> Option<f64>,
) -> OfProcess {
    OfProcess { name, help, unit, kind: MetricType::Counter, value }
}

const OF_PROCESS: [OfProcess; 18] = [
    gauge(
        "sheaves_uptime",
        Some(Unit::Seconds),
        "Time since the process first used Sheaves or was forked",
        |sample| Some(sample.statistics.uptime_ms as f64 / 1000.0),
    ),
    gauge(
        "sheaves_process_resident",
        Some(Unit::Bytes),
        "Resident memory of the process, by the kernel",
        |sample| Some(sample.resident_bytes as f64),
    ),
    gauge(
        "sheaves_heap_limit",
        Some(Unit::Bytes),
        "Limit on the memory of the heap, by SHEAVES_LIMIT",
        |sample| sample.statistics.limit.bytes.map(|bytes| bytes as f64),
    ),
    gauge("sheaves_heap_is_near_limit", None, "1 while the heap is near its limit", |sample| {
        Some(f64::from(sample.statistics.limit.is_near))
    }),
    counter(
        "sheaves_keeper_looks",
        None,
        "Times that the library looked for unused memory",
        |sample| Some(sample.statistics.keeper.looks as f64),
    ),
    counter("sheaves_keeper_busy", Some(Unit::Seconds), "Time spent returning memory", |sample| {
        Some(sample.statistics.keeper.busy_us as f64 / 1e6)
    }),
    gauge(
        "sheaves_keeper_is_armed",
        None,
        "1 while unused memory waits for its return",
        |sample| Some(f64::from(sample.statistics.keeper.is_armed)),
    ),
    gauge("sheaves_rcu_deferred_objects", None, "Objects waiting for readers", |sample| {
        Some(sample.statistics.rcu.deferred_objects as f64)
    }),
    gauge("sheaves_rcu_deferred", Some(Unit::Bytes), "Memory waiting for readers", |sample| {
        Some(sample.statistics.rcu.deferred_bytes as f64)
    }),
    gauge("sheaves_rcu_deferred_age", Some(Unit::Seconds), "Age of the oldest object", |sample| {
        Some(sample.statistics.rcu.oldest_age_ms as f64 / 1000.0)
    }),
    counter(
        "sheaves_rcu_membarriers",
        None,
        "System calls membarrier for grace periods",
        |sample| Some(sample.statistics.rcu.membarriers as f64),
    ),
    counter("sheaves_rcu_calls", None, "Deferred callbacks that have run", |sample| {
        Some(sample.statistics.rcu.calls_run as f64)
    }),
    gauge("sheaves_rcu_readers", None, "Threads in a read section now", |sample| {
        Some(sample.rcu.readers.len() as f64)
    }),
    gauge(
        "sheaves_rcu_grace_period_age",
        Some(Unit::Seconds),
        "Age of the grace period that is under way, else 0",
        |sample| {
            let under_way = sample.rcu.rcu.under_way.as_ref();
            Some(under_way.map_or(0.0, |period| period.age_us as f64 / 1e6))
        },
    ),
    gauge("sheaves_rcu_records", None, "Threads that have been readers", |sample| {
        Some(sample.statistics.rcu.records as f64)
    }),
    gauge("sheaves_percpu_objects", None, "Objects of per-CPU memory", |sample| {
        sample.statistics.percpu.as_ref().map(|percpu| percpu.objects as f64)
    }),
    gauge("sheaves_percpu_committed", Some(Unit::Bytes), "Per-CPU memory in use", |sample| {
        let bytes = sample.statistics.percpu.as_ref();
        bytes.map(|percpu| percpu.committed_bytes as f64 * percpu.slots_used as f64)
    }),
    gauge("sheaves_slots", None, "Slots: CPUs, or numbers in their place", |sample| {
        Some(sample.statistics.slots as f64)
    }),
];

type Count = fn(&Cache) -> u64;

/// A value of a cache.
type OfCache = (&'static str, Option<Unit>, MetricType, &'static str, Count);

const OF_CACHE: [OfCache; 8] = [
    ("sheaves_cache_object", Some(Unit::Bytes), MetricType::Gauge, "Size of an object", |cache| {
        cache.object_bytes
    }),
    ("sheaves_cache_slabs", None, MetricType::Gauge, "Slabs of a cache", |cache| cache.slabs),
    ("sheaves_cache_slab", Some(Unit::Bytes), MetricType::Gauge, "Memory of slabs", |cache| {
        cache.slab_bytes
    }),
    (
        "sheaves_cache_refills",
        None,
        MetricType::Counter,
        "Times that a slot was refilled from slabs",
        |cache| cache.refills,
    ),
    (
        "sheaves_cache_flushes",
        None,
        MetricType::Counter,
        "Times that a slot was flushed to slabs",
        |cache| cache.flushes,
    ),
    (
        "sheaves_cache_depot_hits",
        None,
        MetricType::Counter,
        "Times that the depot had a full sheaf",
        |cache| cache.depot_hits,
    ),
    ("sheaves_cache_slabs_made", None, MetricType::Counter, "Slabs that were made", |cache| {
        cache.slabs_made
    }),
    (
        "sheaves_cache_slabs_released",
        None,
        MetricType::Counter,
        "Slabs that were released",
        |cache| cache.slabs_released,
    ),
];

/// Where objects of a cache are.
const STATES: [(&str, Count); 5] = [
    ("allocated", |cache| cache.objects_out),
    ("slots", |cache| cache.objects_in_slots),
    ("depot", |cache| cache.objects_in_depot),
    ("slabs", |cache| cache.objects_in_slabs),
    ("deferred", |cache| cache.objects_deferred),
];

/// Sums over the heap: their keys, whether they only grow, and what they are.
const TOTALS: [(&str, bool, &str); 9] = [
    ("used_bytes", false, "Heap: memory of blocks that the program has"),
    ("cached_bytes", false, "Heap: memory of free objects in slots, the depot and slabs"),
    ("dirty_bytes", false, "Heap: free memory that the kernel has not got back"),
    ("heap_bytes", false, "Heap: memory mapped for slabs"),
    ("large_bytes", false, "Heap: memory of blocks that are mappings of their own"),
    ("large_blocks", false, "Heap: blocks that are mappings of their own"),
    ("purged_bytes", true, "Heap: memory of free slabs returned to the kernel"),
    ("returned_bytes", true, "Heap: memory returned to the kernel"),
    ("refilled_bytes", true, "Heap: memory used again after it was returned"),
];

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_answers(&mut encoder)?;
        self.encode_totals(&mut encoder)?;
        for OfProcess { name, help, unit, kind, value } in &OF_PROCESS {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
            for sample in &self.0.samples {
                if let Some(value) = value(sample) {
                    encode_value(&mut family, &labels(sample), *kind, value)?;
                }
            }
        }
        self.encode_lengths(&mut encoder)?;
        self.encode_caches(&mut encoder)
    }
}

impl Samples {
    /// Whether processes answer.
    fn encode_answers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("sheaves_up", "1 if the process has answered");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for sample in &self.0.samples {
            encode_value(&mut family, &labels(sample), MetricType::Gauge, 1.0)?;
        }
        for silent in &self.0.silent {
            let labels = vec![("pid", silent.pid.to_string()), ("name", silent.name.clone())];
            encode_value(&mut family, &labels, MetricType::Gauge, 0.0)?;
        }
        Ok(())
    }

    /// The sums over the heap that a process knows.
    fn encode_totals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (key, grows, help) in TOTALS {
            let (stem, unit) = match key.strip_suffix("_bytes") {
                Some(stem) => (stem, Some(Unit::Bytes)),
                None => (key, None),
            };
            let kind = if grows { MetricType::Counter } else { MetricType::Gauge };
            let name = format!("sheaves_heap_{stem}");
            let mut family = encoder.encode_descriptor(&name, help, unit.as_ref(), kind)?;
            for sample in &self.0.samples {
                if let Some(value) = sample.statistics.totals.get(key) {
                    encode_value(&mut family, &labels(sample), kind, *value as f64)?;
                }
            }
        }
        Ok(())
    }

    fn encode_lengths(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("sheaves_rcu_grace_period", "How long grace periods were under way");
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut family = encoder.encode_descriptor(name, help, unit, kind)?;
        for sample in &self.0.samples {
            let lengths = &sample.rcu.rcu.lengths;
            let bound = |class: usize| match class + 1 == lengths.len() {
                true => f64::INFINITY,
                false => (1_u64 << class.min(62)) as f64 / 1e6,
            };
            let buckets = lengths.iter().enumerate().map(|(class, count)| (bound(class), *count));
            let buckets: Vec<_> = buckets.collect();
            let (sum, count) = (sample.rcu.rcu.lengths_us as f64 / 1e6, sample.rcu.rcu.count());
            let labels = labels(sample);
            let mut one = family.encode_family(&labels)?;
            one.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn encode_caches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let caches = || {
            let of = |sample| move |cache| (labels_of_cache(sample, cache), cache);
            self.0
                .samples
                .iter()
                .flat_map(move |sample| sample.statistics.caches.iter().map(of(sample)))
        };
        let (name, help) = ("sheaves_cache_objects", "Objects of a cache, by where they are");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, cache) in caches() {
            for (state, count) in STATES {
                let mut labels = labels.clone();
                labels.push(("state", state.to_owned()));
                encode_value(&mut family, &labels, MetricType::Gauge, count(cache) as f64)?;
            }
        }
        for (name, unit, kind, help, value) in OF_CACHE {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for (labels, cache) in caches() {
                encode_value(&mut family, &labels, kind, value(cache) as f64)?;
            }
        }
        Ok(())
    }
}

fn labels(sample: &Sample) -> Labels {
    let mut labels =
        vec![("pid", sample.process.pid.to_string()), ("name", sample.process.name.clone())];
    // The heap of `malloc` has the same labels before another one is made.
    let object = sample.object.clone().filter(|object| object != PRELOAD);
    labels.extend(object.map(|object| ("object", object)));
    labels
}

fn labels_of_cache(sample: &Sample, cache: &Cache) -> Labels {
    let mut labels = labels(sample);
    labels.push(("cache", cache.name.clone()));
    labels
}

fn encode_value(
    family: &mut MetricEncoder<'_>,
    labels: &Labels,
    kind: MetricType,
    value: f64,
) -> fmt::Result {
    let mut one = family.encode_family(labels)?;
    match kind {
        MetricType::Counter => one.encode_counter(&value, None::<&Exemplar<NoLabelSet, f64>>),
        _ => one.encode_gauge(&value),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/export_metrics.rs"]
mod tests;
