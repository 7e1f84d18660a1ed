//! `percpu`: per-CPU memory, in the pattern that made the kernel's allocator slow and its cure.
//!
//! A network filter takes three objects: two of 16 bytes aligned to 16 and one of 20 bytes. Every
//! 64 bytes there remains a hole of 12 that none of them fits into, so a chunk that is full still
//! has much free memory.
//!
//! | pattern | objects of a filter | what is timed, each per object |
//! |---|---|---|
//! | `tc` | 16 B at 16, 16 B at 16, 20 B at 4 | adding all filters |
//! | `tc-packed` | 12 B, 12 B, 20 B, all at 4: no holes | the same |
//! | `control` | 16 B at 4 | the same |
//! | `churn` | as `tc` | a tenth at random is deleted and added again, ten rounds |
//! | `concurrent` | 8, 16, 24 and 32 B at 8 | threads replace random filters of their own |
//! | `concurrent-pair` | the same | threads allocate and free at once |
//!
//! Variants are the bytes of a chunk in one slot (`32k`, `64k`, `256k`), and where objects are
//! zeroed in all slots the number of these (`64k-zeroed-8`); without zeroing nothing is written,
//! so that the slots make no difference. The size of a row is the number of filters:
//! `tc/64k-zeroed-8/1000000`.

pub(crate) mod churn;
pub(crate) mod concurrent;
pub(crate) mod fill;
pub(crate) mod variant;

use super::{Job, Table};
use crate::contender::Kind;
use crate::contender::percpu::{self, PerCpuMemory, ground, library, padded_box};
use crate::failure::Failure;
use crate::measure::Sampler;
use sheaves_history::cpu::slot_count;
use variant::{Pattern, Variant};

/// Numbers of filters of a full run; the last is that of every variant, the others are the curve
/// of `tc`.
pub(crate) const FILTERS: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];
/// Numbers of filters of a quick run.
pub(crate) const FILTERS_QUICK: [usize; 3] = [1000, 10_000, 100_000];
/// Numbers of filters that can be asked for.
pub(crate) const FILTERS_RANGE: core::ops::RangeInclusive<usize> = 100..=4_000_000;
/// Slots in which objects are zeroed. A quick run has the first only.
const SLOTS: [usize; 2] = [8, 64];
/// The most memory that a contender may take, in bytes.
const MEMORY_BYTES_MAX: usize = 6 << 30;

/// Every workload: `tc` for all numbers of filters, the others for the largest, and the
/// concurrent ones for each number of threads.
pub(crate) fn jobs(filters: &[usize], threads: usize, quick: bool) -> Vec<Job> {
    let job = |variant: Variant, size| {
        Job::new(Table::Percpu, variant.to_string(), size, variant.threads())
    };
    let slots = if quick { &SLOTS[..1] } else { &SLOTS };
    let mut jobs = Vec::new();
    for variant in Variant::all(slots) {
        let curve = variant.pattern == Pattern::Tc;
        let counts = if curve { filters } else { &filters[filters.len().saturating_sub(1)..] };
        jobs.extend(counts.iter().map(|count| job(variant, Some(*count))));
    }
    for pattern in Pattern::ALL.into_iter().filter(|pattern| pattern.is_concurrent()) {
        let variants = (1..=threads).map(|threads| Variant::concurrent(pattern, threads));
        jobs.extend(variants.map(|variant| job(variant, None)));
    }
    jobs
}

/// Why a contender takes no part in a workload, if so.
pub(crate) fn refusal(job: &Job, kind: Kind) -> Option<String> {
    let variant = Variant::parse(&job.variant)?;
    if variant.pattern.is_concurrent() {
        return None;
    }
    let is_library = matches!(kind, Kind::FixedCaches | Kind::FixedHandles);
    if is_library && variant.unit_bytes != library::UNIT_BYTES {
        return Some(format!("the library's chunks are of {} KiB", library::UNIT_BYTES >> 10));
    }
    if is_library && variant.slots > 0 {
        let slots = slot_count();
        return Some(format!("it has this machine's {slots} slots and zeroes when it frees"));
    }
    if kind == Kind::PaddedBox && variant.slots == 0 {
        return Some("a box is never without its slots".to_owned());
    }
    let objects = job.size.unwrap_or_default() * variant.pattern.objects().len();
    let bytes = match kind {
        Kind::PaddedBox => variant.slots * objects * padded_box::ELEMENT_BYTES,
        _ => variant.slots * variant.row_bytes(job.size.unwrap_or_default()),
    };
    let limit = ground::available_bytes().map_or(MEMORY_BYTES_MAX, |available| available / 3);
    (bytes > limit.min(MEMORY_BYTES_MAX)).then(|| "it would take too much memory".to_owned())
}

/// Takes samples of one number: an object.
pub(crate) fn sampler(job: &Job, kind: Kind) -> Result<Sampler, Failure> {
    let Some(variant) = Variant::parse(&job.variant) else {
        return Err(Failure::run(format!("no workload is called '{}'", job.name())));
    };
    percpu::visit(kind, Prepare { variant, filters: job.size.unwrap_or_default() })?
}

struct Prepare {
    variant: Variant,
    filters: usize,
}

impl percpu::Visitor for Prepare {
    type Out = Result<Sampler, Failure>;

    fn visit<C: PerCpuMemory>(self) -> Self::Out {
        let Prepare { variant, filters } = self;
        Ok(match variant.pattern {
            Pattern::Churn => Box::new(churn::Churn::<C>::new(variant, filters)?),
            Pattern::Concurrent | Pattern::ConcurrentPair => {
                Box::new(concurrent::Concurrent::<C>::new(variant)?)
            }
            _ => Box::new(fill::Fill::<C>::new(variant, filters)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(quick: bool) -> Vec<String> {
        jobs(if quick { &FILTERS_QUICK } else { &FILTERS }, 2, quick)
            .iter()
            .map(Job::name)
            .collect()
    }

    #[test]
    fn rows_are_called_by_their_pattern() {
        let full = names(false);
        for name in [
            "tc/32k/1000",
            "tc/64k/1000000",
            "tc/256k-zeroed-64/1000000",
            "tc-packed/64k-zeroed-8/1000000",
            "control/32k/1000000",
            "churn/64k-zeroed-8/1000000",
            "concurrent/1t",
            "concurrent/2t",
            "concurrent-pair/2t",
        ] {
            assert!(full.iter().any(|known| known == name), "{name} is missing in {full:?}");
        }
        assert!(!full.iter().any(|name| name == "control/32k/1000"));
        let quick = names(true);
        assert!(quick.iter().any(|name| name == "tc/64k-zeroed-8/100000"));
        assert!(!quick.iter().any(|name| name.contains("zeroed-64") || name.ends_with("1000000")));
    }

    #[test]
    fn whoever_is_left_out_has_a_reason() {
        let job = |variant: &str, size: usize| Job::new(Table::Percpu, variant, size, 1);
        let refused = |variant, size, kind| refusal(&job(variant, size), kind).is_some();
        assert!(!refused("tc/64k", 1000, Kind::FixedCaches));
        assert!(refused("tc/32k", 1000, Kind::FixedCaches));
        assert!(refused("tc/32k", 1000, Kind::FixedHandles));
        assert!(refused("tc/64k-zeroed-8", 1000, Kind::FixedCaches));
        assert!(!refused("tc/64k-zeroed-8", 1000, Kind::PaddedBox));
        assert!(refused("tc/64k", 1000, Kind::PaddedBox));
        assert!(refused("tc/64k-zeroed-64", 1_000_000, Kind::PaddedBox));
        assert!(!refused("tc/64k", 1_000_000, Kind::V50));
        assert!(!refused("concurrent/2t", 0, Kind::FixedCaches));
    }
}
