//! Sinks: the layers above, which store deferred memory themselves, or keep unused memory.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::membarrier::Reach;

use crate::defer::store::shard::Shard;

/// The most sinks in a process.
pub(crate) const SINKS_MAX: usize = 8;

/// What is deferred and not yet reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Number of objects, or callbacks.
    pub objects: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
}

impl Pending {
    pub(crate) fn new(objects: usize, bytes: usize) -> Pending {
        Pending { objects: objects as u64, bytes: bytes as u64 }
    }

    /// What is pending in some shards, and how much of it is linked.
    pub(crate) fn of<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> (Pending, usize) {
        // Relaxed: statistics.
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        shards.into_iter().fold((Pending::default(), 0), |(pending, linked), shard| {
            let own = Pending::new(load(&shard.objects), load(&shard.bytes));
            (pending + own, linked + load(&shard.linked))
        })
    }
}

impl core::ops::Add for Pending {
    type Output = Pending;
    fn add(self, other: Pending) -> Pending {
        Pending { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }
}

/// A layer above that stores deferred memory itself ([`seal`](Sink::seal), `reclaim`, `pending`),
/// keeps unused memory ([`tick`](Sink::tick), `compact`, `sweep`, `trim`), or does both.
///
/// No method is called under a lock of this crate. [`Sink::reclaim`] must not wait for readers:
/// under hard pressure a thread that defers may call it inside a read section.
pub trait Sink: Sync {
    /// Seals everything that was deferred before the call, in every slot: gives it cookies. False
    /// where a slot was not reached: the caller will try again. May interrupt the CPUs.
    fn seal(&self) -> bool {
        true
    }
    /// Reclaims every sealed batch whose cookie has passed; true if there was one.
    fn reclaim(&self) -> bool {
        false
    }
    /// What is pending, for statistics.
    fn pending(&self) -> Pending {
        Pending::default()
    }
    /// Discards what was unused at the last call and still is. True if something else is unused, so
    /// that another call is necessary. See `keeper`.
    fn tick(&self, _reach: Reach) -> bool {
        false
    }
    /// Compacts what is in use, without waiting. True if another call may help, some time later.
    /// Called by the reclaimer after [`Sink::tick`].
    fn compact(&self) -> bool {
        false
    }
    /// Does what only the library's thread may do. Called by the reclaimer when it starts, and
    /// after [`super::requests::request_sweep`].
    fn sweep(&self) {}
    /// Returns all unused memory to the kernel at once.
    fn trim(&self, _reach: Reach) {}
    /// A unique name, for statistics.
    fn name(&self) -> &'static str;
}

/// The sinks. The lock is held while a sink or a channel is added.
pub(crate) static SINKS: Lock<[Option<&'static dyn Sink>; SINKS_MAX]> =
    Lock::new([None; SINKS_MAX]);

/// Adds a sink for good, unless one of its name is known; false if there are eight already.
/// Several threads may call this at the same time. Takes a short lock.
pub fn register(sink: &'static dyn Sink) -> bool {
    let mut sinks = SINKS.lock();
    let mut places = sinks.iter_mut();
    let place = places.find(|place| place.is_none_or(|known| known.name() == sink.name()));
    place.map(|place| place.get_or_insert(sink)).is_some()
}

/// Returns all unused memory of all layers at once: near a limit.
pub fn trim(reach: Reach) {
    sinks().for_each(|sink| sink.trim(reach));
}

/// The sinks that there are: without the lock.
pub(crate) fn sinks() -> impl Iterator<Item = &'static dyn Sink> {
    let sinks = *SINKS.lock();
    sinks.into_iter().flatten()
}
