//! What is deferred at this moment, and what this has cost.

use core::sync::atomic::Ordering;

use sheaves_sys::clock;

use super::store::emergency::{self, Emergencies};
use super::store::extents::SHEAVES;
use super::store::pressure;
use super::store::shard::Pending;
use super::work::layers::{self, LAYERS_MAX};
use super::work::{bell, calls, channel, domains, keeper, round, watch};

/// What one layer above has pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerPending {
    /// The layer's name, empty if there is none.
    pub name: &'static str,
    /// What it has pending.
    pub pending: Pending,
}

/// What is deferred, and what this has cost. All numbers are of the same moment only if no thread
/// defers or reclaims meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Callbacks in sheaves. The bytes are those of their heads.
    pub calls: Pending,
    /// Callbacks that are linked, because memory was out or the thread had no slot.
    pub linked_calls: Pending,
    /// Callbacks that wait for readers of a domain, see [`crate::Srcu::call`].
    pub domain_calls: Pending,
    /// Objects of channels.
    pub channels: Pending,
    /// Number of objects of channels that are linked.
    pub linked_objects: u64,
    /// Objects of the layers above, by layer.
    pub layers: [LayerPending; LAYERS_MAX],
    /// Which part of all these is sealed.
    pub sealed: Pending,
    /// Upper bound for the age of the oldest object or callback, in ms; 0 if there is none.
    pub oldest_age_ms: u64,
    /// What was done because memory was out.
    pub emergencies: Emergencies,
    /// Requests for grace periods to reclaim something. One grace period may serve many.
    pub grace_periods_asked: u64,
    /// Callbacks that have run, and objects of channels that were freed.
    pub calls_run: u64,
    /// How often the reclaimer has gone to sleep.
    pub reclaimer_sleeps: u32,
    /// Ticks of the keeper, and the time that they took, in microseconds.
    pub keeper_looks: u64,
    /// See above.
    pub keeper_busy_us: u64,
    /// Bytes of address space for sheaves.
    pub mapped_bytes: usize,
}

impl Statistics {
    /// Everything that is deferred.
    #[must_use]
    pub fn pending(&self) -> Pending {
        let layers = self.layers.iter().map(|layer| layer.pending);
        let all = layers.chain([self.calls, self.linked_calls, self.domain_calls, self.channels]);
        all.fold(Pending::default(), |sum, one| sum + one)
    }
}

/// Counts what is deferred now. Takes short locks; allocates nothing. Not for signal handlers.
#[must_use]
pub fn statistics() -> Statistics {
    let (calls, linked_calls) = calls::pending();
    let (channels, linked_objects) = Pending::of(channel::shards());
    let mut layers = [LayerPending::default(); LAYERS_MAX];
    for (pending, layer) in layers.iter_mut().zip(layers::layers()) {
        *pending = LayerPending { name: layer.name(), pending: layer.pending() };
    }
    let [objects, bytes] = pressure::sealed();
    let oldest = round::oldest_ms();
    let (keeper_looks, keeper_busy_us) = keeper::ticks();
    // Relaxed, all: statistics.
    Statistics {
        calls,
        linked_calls,
        domain_calls: domains::pending(),
        channels,
        linked_objects: linked_objects as u64,
        layers,
        sealed: Pending { objects, bytes },
        oldest_age_ms: oldest.map_or(0, |since| clock::coarse_ms().saturating_sub(since)),
        emergencies: emergency::emergencies(),
        grace_periods_asked: round::ASKED.load(Ordering::Relaxed),
        calls_run: watch::calls(),
        reclaimer_sleeps: bell::sleeps(),
        keeper_looks,
        keeper_busy_us,
        mapped_bytes: SHEAVES.mapped_bytes(),
    }
}
