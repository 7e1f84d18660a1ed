//! The layers above: this crate decides when memory goes back, and calls them to return theirs.

use sheaves_sys::lock::Lock;
use sheaves_sys::membarrier::Reach;

use crate::defer::store::shard::Pending;

/// The most layers in a process.
pub(crate) const LAYERS_MAX: usize = 8;

/// A layer above that has memory to return: what it has deferred, what is unused, or both.
///
/// No method is called under a lock of this crate. [`LayerAbove::reclaim`] must not wait for
/// readers: under hard pressure a thread that defers may call it inside a read section.
pub trait LayerAbove: Sync {
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
    /// Called by the reclaimer after [`LayerAbove::tick`].
    fn compact(&self) -> bool {
        false
    }
    /// Does what only the library's thread may do. Called by the reclaimer when it starts, and
    /// after [`super::requests::request_sweep`].
    fn sweep(&self) {}
    /// Returns all unused memory to the kernel at once, without a call of membarrier.
    fn trim(&self) {}
    /// A unique name, for statistics.
    fn name(&self) -> &'static str;
}

/// The layers. The lock is held while one of them or a channel is added.
#[unsafe(link_section = ".sheaves_load")]
pub(crate) static LAYERS: Lock<[Option<&'static dyn LayerAbove>; LAYERS_MAX]> =
    Lock::new([None; LAYERS_MAX]);

/// Adds a layer for good, unless one of its name is known; false if there are eight already.
/// Several threads may call this at the same time. Takes a short lock.
pub fn register(layer: &'static dyn LayerAbove) -> bool {
    let mut layers = LAYERS.lock();
    let mut places = layers.iter_mut();
    let place = places.find(|place| place.is_none_or(|known| known.name() == layer.name()));
    place.map(|place| place.get_or_insert(layer)).is_some()
}

/// Returns all unused memory of all layers at once: near a limit.
pub fn trim() {
    layers().for_each(|layer| layer.trim());
}

/// The layers that there are: without the lock.
pub(crate) fn layers() -> impl Iterator<Item = &'static dyn LayerAbove> {
    let layers = *LAYERS.lock();
    layers.into_iter().flatten()
}
