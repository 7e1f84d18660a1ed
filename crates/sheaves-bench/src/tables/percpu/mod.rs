//! `percpu`: per-CPU memory, in the pattern that made the kernel's allocator slow and its cure.
//!
//! A network filter takes three objects: two of 16 bytes aligned to 16 and one of 20 bytes. Every
//! 64 bytes there remains a hole of 12 that none of them fits into, so a chunk that is full still
//! has much free memory. It is what made Linux's per-CPU allocator slow and led to its change of
//! 2019.
//!
//! | pattern | objects of a filter | what is timed, each per object |
//! |---|---|---|
//! | `tc` | 16 B at 16, 16 B at 16, 20 B at 4 | adding all filters |
//! | `tc-packed` | 12 B, 12 B, 20 B, all at 4: no holes | the same |
//! | `control` | 16 B at 4 | the same |
//! | `churn` | as `tc` | a tenth at random is deleted and added again, ten rounds |
//! | `concurrent` | 8, 16, 24 and 32 B at 8 | threads replace random filters of their own |
//! | `concurrent-pair` | the same | threads allocate, count once and free at once |
//!
//! Rows are `PATTERN/CHUNK/FILTERS` and `PATTERN/Nt`. Chunks are the bytes of one in one slot
//! (`32k`, `64k`, `256k`), and where objects are zeroed in all slots, outside the lock, the number
//! of these (`64k-zeroed-8`); without zeroing nothing is written, so that the slots make no
//! difference. `tc` is measured with 1,000 filters and more, to show what grows with them.
//!
//! | contender | what |
//! |---|---|
//! | `V50`, `V52` | the algorithm before and after 2019, under the library's lock |
//! | `FIXED` | the library's own: `V52` without its defects, on the same memory and lock |
//! | `FIXED+caches` | `PerCpu`, as programs use it, on the slots and the engine of this machine |
//! | `FIXED+handles` | the same by handles, which know their size and refuse to be freed twice |
//! | `mutex-pool` | pools of powers of two with a mutex each, as librseq's are described |
//! | `padded-box` | `Box<[CachePadded<T>]>` for each object |
//!
//! Rows tell what was done for the first sample ([`work`]), which is the same on every machine.
//! Memory in use is compared with the sum of the objects and the holes that alignment forces: where
//! objects lie in the order of the requests (`V50`, `V52`, `FIXED`) there are some between sizes,
//! where those of one size lie side by side there are none. It does not include metadata, which
//! exists once and not in each slot.

mod chunked;
mod churn;
mod concurrent;
mod contenders;
mod fill;
mod library;
mod mutex_pool;
mod padded_box;
mod slot_memory;
mod variant;
mod work;

use core::time::Duration;

use sheaves_history::cpu::slot_count;
use sheaves_history::percpu::{V50, V52};
use sheaves_percpu::internal::dynamic::Allocator;

use crate::harness::{
    Case, Contender, Effort, Failure, Judge, Options, Row, Sampler, Sizes, Table, available_bytes,
};
use chunked::{Chunked, Reserved};
use contenders::PerCpuMemory;
use variant::{Pattern, Variant};
use work::Work;

/// Slots in which objects are zeroed. A quick run has the first only.
const SLOTS: [usize; 2] = [8, 64];
/// The most memory that a contender may take, in bytes.
const MEMORY_BYTES_MAX: usize = 6 << 30;

/// How much faster than `V50` its successors have to be where objects are zeroed.
const TC_SPEEDUP_V52: f64 = 1.77;
const TC_SPEEDUP_FIXED: f64 = 2.5;
/// How much slower than `V50` they may be where no holes are left.
const CONTROL_AT_MOST: f64 = 1.03;
/// How much faster than one mutex for each pool the caches have to be, on several threads.
const CACHES_SPEEDUP: f64 = 5.0;
/// Chunks that may be tested for an allocation.
const CHUNKS_TESTED_MAX: f64 = 1.01;
/// Memory in use to what the objects need.
const MEMORY_RATIO_MAX: f64 = 1.02;
/// Rows of fewer filters are not judged: memory that is kept at hand counts for much there, and
/// samples are short.
const FILTERS_JUDGED_MIN: usize = 100_000;

/// The last is that of every variant, the others are the curve of `tc`.
const FILTERS: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];

pub(crate) static TABLE: Table = Table {
    ours: &["FIXED", "FIXED+caches", "FIXED+handles"],
    sizes: Some(Sizes {
        full: &FILTERS,
        quick: FILTERS.split_at(3).0,
        range: 100..=4_000_000,
        unit: "filters",
    }),
    effort: [effort(0), effort(1)],
    remarks: |report| work::tables(report, &Variant::all(&SLOTS)),
    ..Table::new(
        "percpu",
        "per-CPU memory in the pattern of network filters; --sizes are numbers of filters",
        cases,
    )
};

/// In a case with a million filters `V50` takes seconds for a sample, and the others tenths.
const fn effort(quick: usize) -> Effort {
    let time_max = Duration::from_millis([2000, 400][quick]);
    Effort { time_max, contender_time_max: Duration::from_secs(1), ..Effort::LONG[quick] }
}

/// `tc` for all numbers of filters, the others for the largest, and the concurrent ones for each
/// number of threads.
fn cases(options: &Options) -> Vec<Case> {
    let filters = &options.sizes;
    let mut cases = Vec::new();
    for variant in Variant::all(if options.few { &SLOTS[..1] } else { &SLOTS }) {
        let curve = variant.pattern == Pattern::Tc;
        let counts = if curve { filters } else { &filters[filters.len().saturating_sub(1)..] };
        cases.extend(counts.iter().map(|count| case(variant, *count)));
    }
    for pattern in Pattern::ALL.into_iter().filter(|pattern| pattern.is_concurrent()) {
        let variants = (1..=options.threads).map(|n| Variant::concurrent(pattern, n));
        cases.extend(variants.map(concurrent_case));
    }
    cases
}

fn case(variant: Variant, filters: usize) -> Case {
    let row = Row::sized(&variant.name(), filters);
    let row = row.compared(move |row| compare(row, variant, filters));
    Case::new(vec![row], contenders_of(variant, filters))
}

fn concurrent_case(variant: Variant) -> Case {
    let row = Row::new(variant.name()).compared(move |row| {
        let at_most = if variant.threads == 1 { 1.0 } else { 1.0 / CACHES_SPEEDUP };
        row.compare("FIXED+caches", "mutex-pool", Some(at_most));
        row.compare("FIXED+caches", "FIXED", None);
        row.compare("FIXED+caches", "padded-box", None);
        row.compare("FIXED+handles", "mutex-pool", None);
    });
    Case::new(vec![row], contenders_of(variant, 0))
}

fn contenders_of(variant: Variant, filters: usize) -> Vec<Contender> {
    type Make = fn(Variant, usize) -> Result<Sampler, Failure>;
    let contender = |name, make: Make| match refusal(variant, filters, name) {
        Some(reason) => Contender::left_out(name, reason),
        None => Contender::new(name, move || make(variant, filters)),
    };
    vec![
        contender("V50", sampler::<Chunked<V50<Reserved>>>),
        contender("V52", sampler::<Chunked<V52<Reserved>>>),
        contender("FIXED", sampler::<Chunked<Allocator<Reserved>>>),
        contender("FIXED+caches", sampler::<library::Typed>),
        contender("FIXED+handles", sampler::<library::Handles>),
        contender("mutex-pool", sampler::<mutex_pool::MutexPools>),
        contender("padded-box", sampler::<padded_box::PaddedBox>),
    ]
}

fn refusal(variant: Variant, filters: usize, contender: &str) -> Option<String> {
    if variant.pattern.is_concurrent() {
        return None;
    }
    let is_library = contender.starts_with("FIXED+");
    if is_library && variant.unit_bytes != library::UNIT_BYTES {
        return Some(format!("the library's chunks are of {} KiB", library::UNIT_BYTES >> 10));
    }
    if is_library && variant.slots > 0 {
        let slots = slot_count();
        return Some(format!("it has this machine's {slots} slots and zeroes when it frees"));
    }
    let is_box = contender == "padded-box";
    if is_box && variant.slots == 0 {
        return Some("a box is never without its slots".to_owned());
    }
    let bytes = if is_box {
        filters * variant.pattern.objects().len() * padded_box::ELEMENT_BYTES
    } else {
        variant.row_bytes(filters)
    };
    let available = available_bytes();
    let limit = available.map_or(MEMORY_BYTES_MAX, |available| available / 3);
    let fits = variant.slots * bytes <= limit.min(MEMORY_BYTES_MAX);
    (!fits).then(|| "it would take too much memory".to_owned())
}

fn sampler<C: PerCpuMemory>(variant: Variant, filters: usize) -> Result<Sampler, Failure> {
    Ok(match variant.pattern {
        Pattern::Churn => Box::new(churn::Churn::<C>::new(variant, filters)?),
        Pattern::Concurrent | Pattern::ConcurrentPair => {
            Box::new(concurrent::Concurrent::<C>::new(variant)?)
        }
        _ => Box::new(fill::Fill::<C>::new(variant, filters)),
    })
}

fn compare(row: &mut Judge<'_>, variant: Variant, filters: usize) {
    let is_judged = filters >= FILTERS_JUDGED_MIN;
    let [v52, fixed] = match variant.pattern {
        Pattern::Control => [CONTROL_AT_MOST; 2].map(Some),
        Pattern::Tc if variant.slots > 0 => {
            [TC_SPEEDUP_V52, TC_SPEEDUP_FIXED].map(|n| Some(1.0 / n))
        }
        _ => [None; 2],
    };
    row.compare("V52", "V50", v52.filter(|_| is_judged));
    row.compare("FIXED", "V50", fixed.filter(|_| is_judged));
    row.compare("FIXED", "mutex-pool", None);
    row.compare("FIXED", "padded-box", None);
    row.compare("FIXED+caches", "mutex-pool", None);
    row.compare("FIXED+handles", "mutex-pool", None);
    if is_judged {
        compare_work(row, variant.pattern);
    }
}

fn compare_work(row: &mut Judge<'_>, pattern: Pattern) {
    let work = |row: &Judge<'_>, name| row.work(name).as_ref().and_then(Work::from_json);
    for contender in ["V52", "FIXED"] {
        let tested = work(row, contender).and_then(|work| work.chunks_tested());
        if pattern == Pattern::Tc {
            row.limit(contender, "1 chunk tested", tested, CHUNKS_TESTED_MAX);
        }
    }
    for contender in ["FIXED", "FIXED+caches", "FIXED+handles"] {
        let ratio = work(row, contender).map(|work| work.memory_ratio());
        row.limit(contender, "ideal memory", ratio, MEMORY_RATIO_MAX);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_percpu.rs"]
mod tests;
