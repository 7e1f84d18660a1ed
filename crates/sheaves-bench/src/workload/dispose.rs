//! `dispose`: allocate an object, write to it, defer its free, as fast as that goes.
//!
//! | workload | what |
//! |---|---|
//! | `1t`, `2t`, `4t` | 1, 2 and 4 threads, nothing else |
//! | `request` | one thread, 1 to 2 microseconds of work for each object |
//!
//! The figure of `request` is a whole round of the loop; the contender `without` has the same loop
//! without an object. No thread reads. It is the benchmark behind the published result for OSv's
//! deferred calls of 2014, which were too dear for a server that disposed of one object for each
//! request.
//!
//! A sample is [`SAMPLE`] of that, which for most is millions of objects. What is deferred at its
//! end, and how long it takes until all is free, are rows of their own. The next sample begins
//! when all is free.

use alloc::sync::Arc;
use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use super::crew::{Crew, Gate};
use super::measures::{self, Measure};
use super::{Job, Table};
use crate::contender::dispose::{self, Dispose, OBJECT_BYTES};
use crate::contender::{Kind, ledger};
use crate::failure::Failure;
use crate::measure::{Sampler, Shuffle};

/// First part of the names of rows.
pub(crate) const PART: &str = "dispose";
/// What is measured: an object, until all is free, what is deferred at the end of the timed part,
/// and grace periods during it.
pub(crate) const MEASURES: [Measure; 4] =
    [("", "ns/op"), ("-settled", "ns"), ("-outstanding", "bytes"), ("-periods", "grace periods")];

/// Numbers of threads, as in the published result and between.
const THREADS: [usize; 3] = [1, 2, 4];
/// The variant with work.
const REQUEST: &str = "request";
/// How long is timed.
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

/// Every workload.
pub(crate) fn jobs() -> Vec<Job> {
    let job = |threads| Job::new(Table::Dispose, format!("{threads}t"), None, threads);
    let request = Job::new(Table::Dispose, REQUEST, None, 1);
    THREADS.into_iter().map(job).chain([request]).collect()
}

/// The rows of a workload.
pub(crate) fn rows(job: &Job) -> Vec<String> {
    measures::rows(PART, job, &MEASURES)
}

/// Whether a contender takes part. Without an object there has to be something else.
pub(crate) fn admits(job: &Job, kind: Kind) -> bool {
    kind != Kind::Without || job.variant == REQUEST
}

/// Takes samples.
pub(crate) fn sampler(job: &Job, kind: Kind) -> Result<Sampler, Failure> {
    dispose::visit(kind, Prepare { job })?
}

struct Prepare<'a> {
    job: &'a Job,
}

impl dispose::Visitor for Prepare<'_> {
    type Out = Result<Sampler, Failure>;

    fn visit<C: Dispose>(self, contender: C) -> Self::Out {
        let crew = Crew::of(self.job.threads)?;
        let contender = Arc::new(contender);
        let works = self.job.variant == REQUEST;
        Ok(Box::new(move || sample(&crew, &contender, works)))
    }
}

/// What the threads of a sample have brought together.
#[derive(Clone, Copy, Debug, Default)]
struct Worked {
    time: Duration,
    objects: usize,
    /// These are brought by the first thread.
    settled: Duration,
    outstanding: u64,
    periods: Option<u64>,
}

fn sample<C: Dispose>(crew: &Crew, contender: &Arc<C>, works: bool) -> Result<Vec<f64>, Failure> {
    let _turn = ledger::turn();
    let gate = Gate::new(crew.len());
    let contender = Arc::clone(contender);
    let worked = crew.run(move |index| {
        contender.enter_thread();
        let mut loops = Loop { contender: &*contender, packets: works.then(Packets::new) };
        loops.run(WARM_UP);
        gate.pass();
        let before = contender.periods();
        let mut worked = loops.run(SAMPLE);
        gate.pass();
        if index == 0 {
            worked.outstanding = contender.outstanding();
            worked.periods = contender.periods().zip(before).map(|(after, before)| after - before);
        }
        let begin = Instant::now();
        contender.flush_thread();
        gate.pass();
        let is_settled =
            index != 0 || ledger::settle(|| contender.outstanding(), || contender.finish());
        worked.settled = begin.elapsed();
        gate.pass();
        contender.leave_thread();
        is_settled.then_some(worked)
    });
    let worked = worked.into_iter().collect::<Option<Vec<Worked>>>();
    let worked =
        worked.ok_or_else(|| Failure::run("a contender does not free what is deferred"))?;
    let objects: usize = worked.iter().map(|worked| worked.objects).sum();
    let time: Duration = worked.iter().map(|worked| worked.time).sum();
    let first = worked[0];
    Ok(vec![
        time.as_nanos() as f64 / objects as f64,
        first.settled.as_nanos() as f64,
        first.outstanding as f64,
        // Who does not count has no such row.
        first.periods.map_or(f64::NAN, |periods| periods as f64),
    ])
}

/// What one thread does.
struct Loop<'a, C> {
    contender: &'a C,
    packets: Option<Packets>,
}

impl<C: Dispose> Loop<'_, C> {
    /// Goes on for so long.
    fn run(&mut self, time: Duration) -> Worked {
        let mut chunk = 16;
        let mut objects = 0;
        let begin = Instant::now();
        let mut looked = Duration::ZERO;
        while looked < time {
            if C::COUNTS {
                ledger::add_deferred(chunk * OBJECT_BYTES);
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
        Worked { time: looked, objects, ..Worked::default() }
    }
}

/// The work of requests: packets that lie ready, of which each is read to the end.
struct Packets {
    bytes: Vec<u8>,
    next: usize,
}

impl Packets {
    fn new() -> Packets {
        let mut random = Shuffle::new(2014);
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
mod tests {
    use super::*;

    #[test]
    fn workloads_are_named_by_threads() {
        let names: Vec<_> = jobs().iter().map(Job::name).collect();
        assert_eq!(names, ["dispose/1t", "dispose/2t", "dispose/4t", "dispose/request"]);
        let request = &jobs()[3];
        assert!(admits(request, Kind::Without) && !admits(&jobs()[0], Kind::Without));
    }

    #[test]
    fn every_packet_is_read() {
        let mut packets = Packets::new();
        let first = packets.receive();
        let others: Vec<u64> = (1..PACKETS).map(|_| packets.receive()).collect();
        assert!(others.iter().all(|sum| *sum != first));
        assert_eq!(packets.receive(), first);
    }

    #[test]
    fn a_sample_is_many_objects_and_ends_with_all_free() {
        for (kind, threads) in [(Kind::Sheaves, 2), (Kind::After, 2), (Kind::Seize, 1)] {
            let job = jobs().into_iter().find(|job| job.threads == threads).unwrap();
            let values = sampler(&job, kind).unwrap().sample().unwrap();
            assert!(values[0] > 0.0 && values[1] > 0.0, "{values:?}");
            // A grace period happens now and then.
            assert!(kind == Kind::Seize || values[3] > 0.0, "{values:?}");
        }
        let _turn = ledger::turn();
        assert_eq!(ledger::outstanding(), 0);
    }
}
