//! `dispose`: allocate an object of 64 bytes, write to it, defer its free, as fast as that goes.
//!
//! | row | what |
//! |---|---|
//! | `1t`, `2t`, `4t` | 1, 2 and 4 threads, nothing else; the clock runs while a thread does not |
//! | `request` | one thread, 1 to 2 microseconds of work for each object |
//!
//! The figure of `request` is a whole round of the loop. No thread reads. It is the benchmark
//! behind the published result for OSv's deferred calls of 2014, which were too dear for a server
//! that disposed of one object for each request.
//!
//! A sample is [`SAMPLE`] of that, which for most is millions of objects, so that grace periods
//! happen all the time and memory comes back. What is deferred at its end (`dispose-outstanding`),
//! how long it takes until all is free (`dispose-settled`) and the grace periods of the sample
//! (`dispose-periods`) are rows of their own. The next sample begins when all is free.
//!
//! | contender | how the object is freed |
//! |---|---|
//! | `sheaves` | `Cache::free_rcu`: one push into the slot's deferred sheaf |
//! | `floor` | at once, by the same allocator |
//! | `before` | by a call in one list behind a mutex; its thread is woken for each |
//! | `after` | by `call_rcu` of Sheaves: a call in the slot's buffer; wakes its thread for 2,000 |
//! | `without` | there is none (`request` only) |
//! | `crossbeam-epoch` | `defer_destroy`; with mimalloc `defer_unchecked` |
//! | `seize` | `defer_retire` |
//! | `haphazard` | `retire_ptr`; it allocates a record for each, always with glibc |
//! | `liburcu-call_rcu`, `liburcu-defer_rcu` | flavour `memb` |
//!
//! `before` is how OSv had it until 2014, and `after` what it did instead; both free to a cache of
//! Sheaves. Peers are there with glibc's malloc and, as `...+mimalloc`, with that. A contender that
//! frees in callbacks counts what it frees, about half a nanosecond each.

mod crates;
mod global_list;
mod library;
#[cfg(feature = "peers")]
mod liburcu;
mod memory;

use alloc::sync::Arc;
use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use crate::contenders::allocators::glibc::Glibc;
use crate::contenders::allocators::library::make_cache;
#[cfg(feature = "peers")]
use crate::contenders::allocators::peers::Mimalloc;
use crate::contenders::deferral::{self, Deferral};
use crate::contenders::deferred_bytes;
use crate::harness::{
    Case, Contender, Effort, Failure, Judge, Measure, Random, Sampler, Table, Workers,
    allowed_cpus, per_operation,
};
use memory::OBJECT_BYTES;

/// What is measured of a case; each sample lists these in their order.
const MEASURES: [Measure; 4] = [
    Measure("", "ns/op", "ns", 1.0),
    Measure("-settled", "ns", "all free, us", 1000.0),
    Measure("-outstanding", "bytes", "deferred, KiB", 1024.0),
    Measure("-periods", "grace periods", "periods", 1.0),
];

const SAMPLE: Duration = Duration::from_millis(50);
/// How long the same is done before.
const WARM_UP: Duration = Duration::from_millis(5);
/// The clock is looked at about so often.
const LOOK: Duration = Duration::from_micros(200);
/// Objects between two looks at the most.
const CHUNK_MAX: usize = 1 << 17;

/// Bytes of a request, and how many of them lie ready. Reading one byte by byte takes 1 to 2
/// microseconds.
const PACKET_BYTES: usize = 1024;
const PACKETS: usize = 64;

/// A deferred free to one at once, with the allocation and the write that both have.
const TO_FLOOR: f64 = 2.0;
/// To crossbeam on a fast allocator, with one thread and with two.
const TO_CROSSBEAM: f64 = 0.30;
const TO_CROSSBEAM_2T: f64 = 0.20;
/// How much faster than the better of liburcu's two ways.
const SPEEDUP_LIBURCU: f64 = 8.0;
/// How much faster than a list behind a mutex, with one thread and with four: the figures published
/// for OSv, rounded.
const SPEEDUP_BEFORE: f64 = 5.5;
const SPEEDUP_BEFORE_4T: f64 = 100.0;
/// What a request that disposes of an object may take, to one that does not.
const REQUEST_TO_WITHOUT: f64 = 1.02;

/// Ways of liburcu, with both allocators.
const LIBURCU: [&str; 4] = [
    "liburcu-call_rcu",
    "liburcu-call_rcu+mimalloc",
    "liburcu-defer_rcu",
    "liburcu-defer_rcu+mimalloc",
];

pub(crate) static TABLE: Table = Table {
    ours: &["sheaves"],
    effort: Effort::WAITS,
    remarks: |_| {
        "\nNanoseconds for each object (`request`: for each round of the loop); microseconds\n\
         from the end of that until all is free; what is deferred at that end; grace periods\n\
         meanwhile, where they are counted. All are medians.\n"
            .to_owned()
    },
    ..Table::new(
        "dispose",
        "defer the free of an object until its readers are gone: 1t, 2t, 4t, request",
        |_| [Load::Threads(1), Load::Threads(2), Load::Threads(4), Load::Request].map(case).into(),
    )
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Threads(usize),
    Request,
}

fn case(load: Load) -> Case {
    let variant = match load {
        Load::Threads(threads) => format!("{threads}t"),
        Load::Request => "request".to_owned(),
    };
    let cpus = allowed_cpus().len();
    let heading = match load {
        Load::Threads(threads) if threads > cpus => {
            format!("dispose/{variant} (oversubscribed: {cpus} processors)")
        }
        _ => format!("dispose/{variant}"),
    };
    let judge = move |row: &mut Judge<'_>, suffix: &str| {
        if suffix.is_empty() {
            compare(row, load);
        }
    };
    let rows = Measure::rows(&MEASURES, ("dispose", &variant), &heading, judge);
    Case::new(rows, contenders_of(load))
}

fn contenders_of(load: Load) -> Vec<Contender> {
    let cache = || make_cache("dispose", OBJECT_BYTES);
    let calls = || Ok::<_, Failure>(library::Calls { cache: library::cache_of_calls()? });
    let mut contenders = vec![
        Contender::new("sheaves", move || load.sampler(library::RcuSheaves { cache: cache()? })),
        Contender::new("floor", move || load.sampler(library::Floor { cache: cache()? })),
        Contender::new("before", move || load.sampler(global_list::Before::new()?)),
        Contender::new("after", move || load.sampler(calls()?)),
    ];
    if load == Load::Request {
        contenders.push(load.contender("without", || library::Without));
    }
    contenders.extend([
        load.contender("crossbeam-epoch", || crates::Crossbeam),
        load.contender("seize", crates::Seize::<Glibc>::default),
        load.contender("haphazard", crates::Haphazard::<Glibc>::default),
    ]);
    #[cfg(feature = "peers")]
    contenders.extend([
        load.contender("crossbeam-epoch+mimalloc", crates::CrossbeamWith::<Mimalloc>::default),
        load.contender("seize+mimalloc", crates::Seize::<Mimalloc>::default),
        load.contender("haphazard+mimalloc", crates::Haphazard::<Mimalloc>::default),
        load.contender("liburcu-call_rcu", liburcu::CallRcu::<Glibc>::default),
        load.contender("liburcu-call_rcu+mimalloc", liburcu::CallRcu::<Mimalloc>::default),
        load.contender("liburcu-defer_rcu", liburcu::DeferRcu::<Glibc>::default),
        load.contender("liburcu-defer_rcu+mimalloc", liburcu::DeferRcu::<Mimalloc>::default),
    ]);
    contenders
}

fn compare(row: &mut Judge<'_>, load: Load) {
    let Load::Threads(threads) = load else {
        row.compare("sheaves", "without", Some(REQUEST_TO_WITHOUT));
        for other in ["floor", "after", "before"] {
            row.compare(other, "without", None);
        }
        return;
    };
    let [floor, crossbeam, before] = match threads {
        1 => [Some(TO_FLOOR), Some(TO_CROSSBEAM), Some(1.0 / SPEEDUP_BEFORE)],
        2 => [None, Some(TO_CROSSBEAM_2T), None],
        4 => [None, None, Some(1.0 / SPEEDUP_BEFORE_4T)],
        _ => [None; 3],
    };
    row.compare("sheaves", "floor", floor);
    row.compare("sheaves", "crossbeam-epoch+mimalloc", crossbeam);
    row.compare("sheaves", "crossbeam-epoch", None);
    row.compare("sheaves", "before", before);
    for other in ["after", "seize", "seize+mimalloc", "haphazard", "haphazard+mimalloc"] {
        row.compare("sheaves", other, None);
    }
    row.compare("after", "before", None);
    LIBURCU.iter().for_each(|other| row.ratio("sheaves", other));
    if let Some(best) = row.best(&LIBURCU).filter(|_| row.has_all_peers(&LIBURCU)) {
        row.hold("sheaves", best, Some(1.0 / SPEEDUP_LIBURCU));
    }
}

impl Load {
    fn contender<C: Deferral>(self, name: &'static str, make: fn() -> C) -> Contender {
        Contender::new(name, move || self.sampler(make()))
    }

    fn sampler<C: Deferral>(self, contender: C) -> Result<Sampler, Failure> {
        let (threads, works) = match self {
            Load::Threads(threads) => (threads, false),
            Load::Request => (1, true),
        };
        let workers = Workers::of(threads)?;
        let contender = Arc::new(contender);
        Ok(Box::new(move || sample(&workers, &contender, works)))
    }
}

fn sample<C: Deferral>(
    workers: &Workers,
    contender: &Arc<C>,
    works: bool,
) -> Result<Vec<f64>, Failure> {
    let _lock = deferred_bytes::lock();
    let (worked, settled) = deferral::sample(workers, contender, move |contender, start| {
        let mut loops = Loop { contender, packets: works.then(Packets::new) };
        loops.run(WARM_UP);
        start();
        loops.run(SAMPLE)
    })?;
    let (times, objects): (Vec<Duration>, Vec<usize>) = worked.into_iter().unzip();
    Ok(vec![
        per_operation(times.iter().sum(), objects.iter().sum()),
        settled.time.as_nanos() as f64,
        settled.outstanding as f64,
        // A contender that does not count has no such row.
        settled.periods.map_or(f64::NAN, |periods| periods as f64),
    ])
}

struct Loop<'a, C> {
    contender: &'a C,
    packets: Option<Packets>,
}

impl<C: Deferral> Loop<'_, C> {
    /// Goes on for so long; the time that it took in the end, and the objects.
    fn run(&mut self, time: Duration) -> (Duration, usize) {
        let mut chunk = 16;
        let mut objects = 0;
        let begin = Instant::now();
        let mut looked = Duration::ZERO;
        while looked < time {
            if C::COUNTS {
                deferred_bytes::add_deferred(chunk * OBJECT_BYTES);
            }
            match &mut self.packets {
                Some(packets) => {
                    for _ in 0..chunk {
                        black_box(packets.receive());
                        self.contender.dispose();
                    }
                }
                None => self.contender.repeat(chunk),
            }
            objects += chunk;
            let now = begin.elapsed();
            if now - looked < LOOK {
                chunk = (chunk * 2).min(CHUNK_MAX);
            }
            looked = now;
        }
        (looked, objects)
    }
}

/// The work of requests: packets that lie ready, of which each is read to the end.
struct Packets {
    bytes: Vec<u8>,
    next: usize,
}

impl Packets {
    fn new() -> Packets {
        let mut random = Random::new(2014);
        let bytes = (0..PACKETS * PACKET_BYTES).map(|_| random.next() as u8).collect();
        Packets { bytes, next: 0 }
    }

    /// The checksum (FNV-1a) of the next packet: one multiplication after the other.
    #[inline(never)]
    fn receive(&mut self) -> u64 {
        let start = self.next * PACKET_BYTES;
        self.next = (self.next + 1) % PACKETS;
        let packet = &self.bytes[start..start + PACKET_BYTES];
        packet.iter().fold(0xCBF2_9CE4_8422_2325, |sum: u64, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_dispose.rs"]
mod tests;
