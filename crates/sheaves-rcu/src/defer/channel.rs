//! Memory that does not come from a cache: addresses in blocks, freed by a function.
//!
//! For large and foreign memory: freeing it costs far more than a short lock. A block is a page: a
//! header and 508 addresses. It is sealed when it is full, or when the objects in it have many
//! bytes. Sealed blocks wait like buffers of calls. If memory for a block is out, the address is
//! kept by the head in the object, if the caller has passed one: heads wait as lists, see `linked`.
//! `emergency` says what happens without a head.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use sheaves_percpu::engine;
use sheaves_sys::report;

use super::head::Head;
use super::shard::{NoBlock, Shard};
use super::sink::{self, Pending};
use super::{emergency, watch};
use crate::reader;

/// Open blocks of each channel; slots are distributed over them.
const SHARDS: usize = 4;

/// A way to free one kind of memory. A channel is never destroyed.
///
/// ```
/// use sheaves_rcu::defer::{Channel, barrier};
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
/// # Ok::<(), sheaves_rcu::defer::BarrierError>(())
/// ```
pub struct Channel {
    name: &'static str,
    free: unsafe fn(*mut u8),
    /// The next known channel.
    next: AtomicPtr<Channel>,
    is_known: AtomicBool,
    shards: [Shard; SHARDS],
}

/// The channel that was added last.
static CHANNELS: AtomicPtr<Channel> = AtomicPtr::new(null_mut());

impl core::fmt::Debug for Channel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Channel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Channel {
    /// A channel whose objects are freed by `free`.
    ///
    /// `free` runs where deferred callbacks run (see [`super::Call`]), and also in a thread that
    /// defers through a channel while more than `SHEAVES_RCU_HARD_BYTES` are pending. That thread
    /// may be inside a read section.
    pub const fn new(name: &'static str, free: unsafe fn(*mut u8)) -> Channel {
        Channel {
            name,
            free,
            next: AtomicPtr::new(null_mut()),
            is_known: AtomicBool::new(false),
            shards: [const { Shard::new() }; SHARDS],
        }
    }

    /// The channel's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Frees an object of `bytes` bytes after a grace period. The one-argument form: nothing is
    /// stored in the object.
    ///
    /// Takes a short lock, and a page of memory for every 508 objects. If memory is out it
    /// **blocks**: it waits for a grace period and frees the object itself. Inside a read section
    /// that would deadlock, so the object is leaked there, with a line on standard error for the
    /// first one. Not for signal handlers.
    ///
    /// # Safety
    /// Only readers still use the object, and it is freed in no other way. The channel's function
    /// may be called with it in another thread.
    pub unsafe fn free_later(&'static self, pointer: *mut u8, bytes: usize) {
        if self.is_twice(pointer) {
            return;
        }
        if let Err(NoBlock) = self.here().push(pointer, bytes) {
            self.free_slowly(pointer);
        }
    }

    /// [`Channel::free_later`] with a head in the object, for when memory for a block is out.
    /// Blocks on short locks only, and never leaks.
    ///
    /// # Safety
    /// As for [`Channel::free_later`]; and `head` is valid, zero or idle, and is in the object at
    /// or after `pointer`.
    pub unsafe fn free_later_with(&'static self, head: *mut Head, pointer: *mut u8, bytes: usize) {
        if self.is_twice(pointer) {
            return;
        }
        if let Err(NoBlock) = self.here().push(pointer, bytes) {
            // SAFETY: valid by the contract.
            if unsafe { (*head).claim(head.expose_provenance() - pointer.expose_provenance()) } {
                emergency::reach(emergency::LINKED);
                self.here().link(head, bytes);
            }
        }
    }

    /// The fallback without a block and without a head.
    #[cold]
    fn free_slowly(&self, pointer: *mut u8) {
        if !reader::is_reading() && crate::synchronize_expedited().is_ok() {
            emergency::reach(emergency::WAITED);
            // SAFETY: a grace period has passed; the rest is the contract of `free_later`.
            unsafe { (self.free)(pointer) };
        } else if emergency::reach(emergency::LEAKED) == 0 {
            let name = self.name;
            report::report(format_args!(
                "out of memory inside a read section: objects are never freed, {pointer:p} of \
                 channel {name} is the first"
            ));
        }
    }

    fn here(&'static self) -> &'static Shard {
        self.make_known();
        &self.shards[usize::try_from(engine::current_slot()).unwrap_or(0) % SHARDS]
    }

    /// Adds this channel to the list of all channels, once.
    fn make_known(&'static self) {
        // Acquire pairs with the Release below.
        if self.is_known.load(Ordering::Acquire) {
            return;
        }
        let _registering = sink::REGISTERING.lock();
        // Relaxed, here and below: changes under the lock.
        if self.is_known.load(Ordering::Relaxed) {
            return;
        }
        // In the child of a fork, a thread that does not exist there may have added it.
        if all().any(|known| core::ptr::eq(known, self)) {
            // Release pairs with the Acquire above.
            self.is_known.store(true, Ordering::Release);
            return;
        }
        self.next.store(CHANNELS.load(Ordering::Relaxed), Ordering::Relaxed);
        // Release pairs with the Acquire in `all`: the link. [L1]
        CHANNELS.store(core::ptr::from_ref(self).cast_mut(), Ordering::Release);
        // Release pairs with the Acquire above.
        self.is_known.store(true, Ordering::Release);
    }

    /// With debug assertions: true, with a report, if the address is deferred already.
    fn is_twice(&self, pointer: *mut u8) -> bool {
        let is_twice =
            cfg!(debug_assertions) && self.shards.iter().any(|shard| shard.has(pointer.addr()));
        if is_twice {
            let name = self.name;
            report::report(format_args!(
                "rcu: {pointer:p} of channel {name} is deferred twice: the second is ignored"
            ));
        }
        is_twice
    }

    /// Frees an object after its grace period.
    pub(super) fn free_one(&self, pointer: *mut u8) {
        watch::begin(watch::DRIVER, self.free as *const () as usize);
        // SAFETY: a grace period has passed; the rest is the contract of `free_later`.
        unsafe { (self.free)(pointer) };
    }
}

/// All known channels.
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

/// Seals the partial blocks of every channel.
pub(super) fn seal_all() {
    all().flat_map(|channel| &channel.shards).for_each(Shard::seal);
}

/// Frees what is ready in every channel; true if something was. For the driver.
pub(super) fn free_ready() -> bool {
    let mut any = false;
    for channel in all() {
        for shard in &channel.shards {
            // Relaxed: a hint that saves the lock.
            if shard.objects.load(Ordering::Relaxed) != 0 {
                any |= shard.free_ready(channel);
            }
        }
    }
    watch::end(watch::DRIVER);
    any
}

/// What is pending in all channels, and how much of it is linked.
pub(super) fn pending() -> (Pending, u64) {
    let (mut pending, mut linked) = (Pending::default(), 0);
    for shard in all().flat_map(|channel| &channel.shards) {
        // Relaxed, all: statistics.
        pending.objects += shard.objects.load(Ordering::Relaxed) as u64;
        pending.bytes += shard.bytes.load(Ordering::Relaxed) as u64;
        linked += shard.linked.load(Ordering::Relaxed) as u64;
    }
    (pending, linked)
}

/// Takes all locks for a fork. No channel is added meanwhile.
pub(super) fn acquire() {
    all().flat_map(|channel| &channel.shards).for_each(|shard| shard.waiting.acquire());
}

/// [`acquire`] in the child of a fork that ran no `prepare` handler.
pub(super) fn recover() {
    all().flat_map(|channel| &channel.shards).for_each(Shard::recover);
}

/// Releases them.
///
/// # Safety
/// Taken by [`acquire`] in the thread that forked.
pub(super) unsafe fn release() {
    for shard in all().flat_map(|channel| &channel.shards) {
        // SAFETY: the same contract.
        unsafe { shard.waiting.release() };
    }
}
