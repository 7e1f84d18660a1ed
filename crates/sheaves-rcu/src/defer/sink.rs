//! Layers above that hold deferred memory of their own.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::lock::Lock;

/// The most sinks of a process.
pub const SINKS_MAX: usize = 8;

/// What is deferred and not yet taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Objects, or calls.
    pub objects: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
}

/// A layer above that holds deferred memory of its own.
///
/// None of this is called under a lock of this crate. [`Sink::reclaim`] may be called in a read
/// section, by who defers through a channel under [`super::Pressure::Hard`]: it must not wait for
/// readers.
pub trait Sink: Sync {
    /// Seals what is partial, in every slot: afterwards everything that was deferred before the
    /// call is in sealed batches, which have cookies. False where a slot was not reached: what is
    /// there is looked for again. May interrupt the processors.
    fn seal(&self) -> bool;
    /// Takes back every sealed batch whose cookie has passed; true if there was one.
    fn reclaim(&self) -> bool;
    /// What is pending, for statistics.
    fn pending(&self) -> Pending;
    /// Much was taken back, and nothing was deferred for a while: gives free memory to the system.
    fn give_back(&self) {}
    /// A name of its own, for statistics.
    fn name(&self) -> &'static str;
}

/// Places for sinks. `COUNT` says how many are filled: they are written before it is raised and
/// never again.
struct Places([UnsafeCell<Option<&'static dyn Sink>>; SINKS_MAX]);

// SAFETY: a place is written once, under the lock, before the count makes it visible.
unsafe impl Sync for Places {}

static PLACES: Places = Places([const { UnsafeCell::new(None) }; SINKS_MAX]);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Held while a sink or a channel becomes known.
pub(super) static REGISTERING: Lock<()> = Lock::new(());

/// Makes a layer known, for ever; false when there are [`SINKS_MAX`] already.
///
/// A layer is known by its name: one that is known already is not added again. So several threads
/// may call this at a time, and each finds the layer known when it returns.
pub fn register(sink: &'static dyn Sink) -> bool {
    let _registering = REGISTERING.lock();
    if sinks().any(|known| known.name() == sink.name()) {
        return true;
    }
    // Relaxed: changes under the lock.
    let count = COUNT.load(Ordering::Relaxed);
    let Some(place) = PLACES.0.get(count) else { return false };
    // SAFETY: nobody reads the place before the count is raised, and the lock keeps others out.
    unsafe { *place.get() = Some(sink) };
    // Release pairs with the Acquire in `sinks`. [S1]
    COUNT.store(count + 1, Ordering::Release);
    true
}

/// All layers that are known.
pub(super) fn sinks() -> impl Iterator<Item = &'static dyn Sink> {
    // Acquire pairs with the Release in `register`. [S1]
    let count = COUNT.load(Ordering::Acquire);
    // SAFETY: written before the count was raised, and never again.
    PLACES.0[..count].iter().filter_map(|place| unsafe { *place.get() })
}
