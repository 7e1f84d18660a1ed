//! Memory that does not come from a cache: addresses in sheaves, freed by a function.
//!
//! For large and foreign memory: freeing it costs far more than a short lock. `emergency` says what
//! happens if memory for a sheaf is out. `free_later` has the methods that defer.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use sheaves_percpu::internal::current_slot;
use sheaves_sys::report;

use super::{layers, watch};
use crate::defer::store::shard::{CAPACITY, Shard};
use crate::heads::Head;

/// Number of shards of a channel, over which slots are distributed.
const SHARDS: usize = 4;
/// Number of sealed objects of a shard after which a grace period is started.
const START_OBJECTS: usize = 4 * CAPACITY;

/// A way to free one kind of memory. A channel is never destroyed.
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// use sheaves::rcu::defer::{Channel, barrier};
///
/// unsafe fn unmap(pointer: *mut u8) {
/// // munmap, fclose, or another function that frees the object.
/// #   drop(unsafe { Box::from_raw(pointer.cast::<u64>()) });
/// }
/// static MAPS: Channel = Channel::new("maps", unmap);
///
/// let pointer = Box::into_raw(Box::new(7_u64)).cast();
/// // SAFETY: the object cannot be found any more, and is freed in no other way.
/// unsafe { MAPS.free_later(pointer, 8) };
/// barrier()?;
/// # Ok::<(), sheaves::rcu::defer::BarrierError>(())
/// ```
pub struct Channel {
    name: &'static str,
    free: unsafe fn(*mut u8),
    next: AtomicPtr<Channel>,
    is_known: AtomicBool,
    shards: [Shard; SHARDS],
}

static CHANNELS: AtomicPtr<Channel> = AtomicPtr::new(null_mut());

impl core::fmt::Debug for Channel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Channel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Channel {
    /// A channel whose objects are freed by `free`.
    ///
    /// `free` runs where deferred callbacks run (see [`mod@crate::defer`]). Where more is pending
    /// than `SHEAVES_RCU_BYTES`, it also runs in threads that defer through a channel, maybe
    /// inside a read section.
    pub const fn new(name: &'static str, free: unsafe fn(*mut u8)) -> Channel {
        Channel {
            name,
            free,
            next: AtomicPtr::new(null_mut()),
            is_known: AtomicBool::new(false),
            shards: [const { Shard::new(START_OBJECTS) }; SHARDS],
        }
    }

    /// The name, for reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The shard of the calling thread's slot. Adds the channel to the list if it is new.
    pub(crate) fn here(&'static self) -> &'static Shard {
        self.make_known();
        &self.shards[usize::try_from(current_slot()).unwrap_or(0) % SHARDS]
    }

    fn make_known(&'static self) {
        // Acquire pairs with the Release below.
        if self.is_known.load(Ordering::Acquire) {
            return;
        }
        let _registering = layers::LAYERS.lock();
        // Another thread may have added it, maybe one that is not in this child of a fork.
        if !all().any(|known| core::ptr::eq(known, self)) {
            // Relaxed, both: change under the lock.
            self.next.store(CHANNELS.load(Ordering::Relaxed), Ordering::Relaxed);
            // Release pairs with the Acquire in `all`: the link. [L1]
            CHANNELS.store(core::ptr::from_ref(self).cast_mut(), Ordering::Release);
        }
        // Release pairs with the Acquire above.
        self.is_known.store(true, Ordering::Release);
    }

    /// With debug assertions: true, with a report, if the object is deferred already.
    pub(crate) fn is_twice(&self, pointer: *mut u8) -> bool {
        let has = |shard: &Shard| shard.has(pointer.addr());
        let is_twice = cfg!(debug_assertions) && self.shards.iter().any(has);
        if is_twice {
            report::report(format_args!(
                "rcu: {pointer:p} of channel {} is deferred twice: the second is ignored",
                self.name
            ));
        }
        is_twice
    }

    /// Frees an object after its grace period.
    fn free_one(&self, address: usize) {
        watch::begin(watch::DRIVER, self.free as *const () as usize);
        self.free_unwatched(with_exposed_provenance_mut(address));
    }

    pub(crate) fn free_unwatched(&self, object: *mut u8) {
        // SAFETY: a grace period has passed; the rest is the contract of `free_later`.
        unsafe { (self.free)(object) };
    }
}

fn all() -> impl Iterator<Item = &'static Channel> {
    // Acquire pairs with the Release in `make_known`. [L1]
    let mut next = CHANNELS.load(Ordering::Acquire).cast_const();
    core::iter::from_fn(move || {
        // SAFETY: null, or a channel, which is never destroyed.
        let channel: &'static Channel = unsafe { next.as_ref() }?;
        // Relaxed: constant since it was published.
        next = channel.next.load(Ordering::Relaxed);
        Some(channel)
    })
}

pub(crate) fn shards() -> impl Iterator<Item = &'static Shard> {
    all().flat_map(|channel| &channel.shards)
}

/// Seals the open sheaves of all channels; true if there was one.
pub(crate) fn seal_all() -> bool {
    shards().fold(false, |any, shard| shard.seal_open(&mut shard.waiting.lock()).is_some() | any)
}

/// Frees what is ready in all channels; true if something was. For the driver.
pub(crate) fn free_ready() -> bool {
    let mut any = false;
    for channel in all() {
        let free_linked = |head: *mut Head| {
            // The head was claimed with its offset in the object.
            // SAFETY: valid until it is freed, by the contract of `free_later_with`.
            if let Some(offset) = unsafe { (*head).finish() } {
                channel.free_one(head.expose_provenance() - offset);
            }
        };
        for shard in &channel.shards {
            any |= shard.reclaim(|entry| channel.free_one(entry), free_linked);
        }
    }
    watch::end(watch::DRIVER);
    any
}
