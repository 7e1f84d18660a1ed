//! The answers of a process: what `sheaves_heap::report` and `report::rcu` print. Keys that are not
//! there are 0, so that a command can read the answers of other releases.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Statistics.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Statistics {
    pub(crate) schema: u32,
    pub(crate) pid: u32,
    pub(crate) engine: String,
    pub(crate) slot: String,
    pub(crate) slots: u64,
    pub(crate) uptime_ms: u64,
    /// Sums over the heap, by their names.
    pub(crate) totals: BTreeMap<String, u64>,
    pub(crate) keeper: Keeper,
    pub(crate) limit: Limit,
    pub(crate) rcu: RcuStatistics,
    pub(crate) percpu: Option<PerCpu>,
    pub(crate) caches: Vec<Cache>,
}

impl Statistics {
    /// One of the sums, 0 where it is not there.
    pub(crate) fn total(&self, name: &str) -> u64 {
        self.totals.get(name).copied().unwrap_or(0)
    }
}

/// The thread that returns unused memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Keeper {
    pub(crate) looks: u64,
    pub(crate) busy_us: u64,
    pub(crate) is_armed: bool,
}

/// The limit on the memory of the heap.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Limit {
    pub(crate) bytes: Option<u64>,
    pub(crate) is_near: bool,
}

/// Counts of grace periods, and what is deferred.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RcuStatistics {
    pub(crate) deferred_objects: u64,
    pub(crate) deferred_bytes: u64,
    pub(crate) grace_periods: u64,
    pub(crate) membarriers: u64,
    pub(crate) records: u64,
    pub(crate) readers_fence: bool,
    pub(crate) oldest_age_ms: u64,
    pub(crate) grace_periods_asked: u64,
    pub(crate) calls_run: u64,
}

/// Per-CPU memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PerCpu {
    pub(crate) objects: u64,
    pub(crate) populated_pages: u64,
    pub(crate) empty_pages: u64,
    pub(crate) slots_used: u64,
    pub(crate) committed_bytes: u64,
    pub(crate) row_bytes: u64,
}

/// A cache; size classes of malloc are caches, too.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cache {
    pub(crate) name: String,
    pub(crate) object_bytes: u64,
    pub(crate) stride_bytes: u64,
    pub(crate) objects_out: u64,
    pub(crate) objects_in_slots: u64,
    pub(crate) objects_in_depot: u64,
    pub(crate) objects_in_slabs: u64,
    pub(crate) objects_deferred: u64,
    pub(crate) slabs: u64,
    pub(crate) slab_bytes: u64,
    pub(crate) slabs_made: u64,
    pub(crate) slabs_released: u64,
    pub(crate) refills: u64,
    pub(crate) flushes: u64,
    pub(crate) depot_hits: u64,
}

impl Cache {
    /// Objects that exist, in use or not.
    pub(crate) fn objects(&self) -> u64 {
        let free = [self.objects_in_slots, self.objects_in_depot, self.objects_in_slabs];
        let all = free.into_iter().fold(self.objects_out, u64::saturating_add);
        all.saturating_add(self.objects_deferred)
    }

    /// The part of the objects that is in use, in percent.
    pub(crate) fn use_percent(&self) -> u64 {
        self.objects_out.saturating_mul(100) / self.objects().max(1)
    }
}

/// Readers and grace periods.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rcu {
    pub(crate) pid: u32,
    pub(crate) age_ms: u64,
    pub(crate) rcu: GracePeriods,
    pub(crate) readers: Vec<Reader>,
}

/// The grace periods of a process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct GracePeriods {
    pub(crate) completed: u64,
    pub(crate) under_way: Option<UnderWay>,
    pub(crate) sequence: u64,
    pub(crate) shared_sections: u64,
    /// How many took less than 2^n microseconds, but not less than 2^(n-1).
    #[serde(deserialize_with = "lengths")]
    pub(crate) lengths: Vec<u64>,
    /// The time of all of them.
    pub(crate) lengths_us: u64,
}

impl GracePeriods {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.lengths.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// No more classes than a number of microseconds can have, and counts of which sums make sense.
fn lengths<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<u64>, D::Error> {
    const CLASSES_MAX: usize = 64;
    const COUNT_MAX: u64 = 1 << 56;
    let mut lengths = Vec::<u64>::deserialize(json)?;
    lengths.truncate(CLASSES_MAX);
    lengths.iter_mut().for_each(|count| *count = (*count).min(COUNT_MAX));
    Ok(lengths)
}

/// A grace period that is under way.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UnderWay {
    pub(crate) number: u64,
    pub(crate) age_us: u64,
}

/// A thread that is in a read section.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reader {
    pub(crate) tid: i32,
    pub(crate) name: String,
    pub(crate) nesting: u64,
    pub(crate) sequence: u64,
    pub(crate) has_ended: bool,
}
