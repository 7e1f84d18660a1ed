//! What is deferred at this moment, and what that has cost.

use sheaves_sys::clock;

use super::emergency::{self, Emergencies};
use super::pool::{BLOCKS, SHEAVES};
use super::sink::{self, Pending, SINKS_MAX};
use super::{calls, channel, pressure, reclaimer, round, watch};

/// What one [`super::Sink`] has pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SinkPending {
    /// Its name, empty for none.
    pub name: &'static str,
    /// What it has pending.
    pub pending: Pending,
}

/// What is deferred. Numbers of one moment as far as nothing is deferred meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Calls in buffers. The bytes are those of their heads.
    pub calls: Pending,
    /// Calls that are linked, for want of memory or of a slot.
    pub linked_calls: Pending,
    /// Objects of channels.
    pub channels: Pending,
    /// Those of them that are linked.
    pub linked_objects: u64,
    /// Objects of the layers above.
    pub sinks: [SinkPending; SINKS_MAX],
    /// What is sealed of all that.
    pub sealed: Pending,
    /// Age of the oldest of all that in milliseconds, at most; 0 when there is nothing.
    pub oldest_age_ms: u64,
    /// What was done without memory so far.
    pub emergencies: Emergencies,
    /// Grace periods that were asked for to take something back. One may serve many.
    pub grace_periods_asked: u64,
    /// Calls, and objects of channels, that were run and freed so far.
    pub calls_run: u64,
    /// How often the reclaimer has gone to sleep.
    pub reclaimer_sleeps: u32,
    /// Bytes of address space for buffers and blocks.
    pub mapped_bytes: usize,
}

/// What is deferred now. Takes short locks; allocates nothing.
#[must_use]
pub fn statistics() -> Statistics {
    let (calls, linked_calls) = calls::pending();
    let (channels, linked_objects) = channel::pending();
    let mut sinks = [SinkPending::default(); SINKS_MAX];
    for (place, sink) in sinks.iter_mut().zip(sink::sinks()) {
        *place = SinkPending { name: sink.name(), pending: sink.pending() };
    }
    let (objects, bytes) = pressure::sealed();
    let oldest = round::oldest_ms();
    Statistics {
        calls,
        linked_calls,
        channels,
        linked_objects,
        sinks,
        sealed: Pending { objects, bytes },
        oldest_age_ms: oldest.map_or(0, |since| clock::coarse_ms().saturating_sub(since)),
        emergencies: emergency::emergencies(),
        grace_periods_asked: round::asked(),
        calls_run: watch::calls(),
        reclaimer_sleeps: reclaimer::sleeps(),
        mapped_bytes: SHEAVES.mapped_bytes() + BLOCKS.mapped_bytes(),
    }
}
