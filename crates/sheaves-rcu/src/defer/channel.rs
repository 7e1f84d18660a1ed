//! Memory that no cache knows: addresses in blocks, freed by a function.
//!
//! For large and foreign memory, whose own freeing costs far more than a short lock. A block is a
//! page of addresses behind its header, 508 of them; it is sealed when it is full, or when
//! what it stands for is large: bytes count, not addresses. Sealed blocks wait like deferred calls.
//! Without a block the address is kept by a head in the object, where the caller has one:
//! heads wait as lists, see `linked`. What happens where there is none is in `emergency`.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use sheaves_percpu::engine;
use sheaves_sys::report;

use super::head::Head;
use super::shard::{NoBlock, Shard};
use super::sink::{self, Pending};
use super::{emergency, watch};
use crate::reader;

/// Blocks in use at a time for each channel, to which slots are dealt.
const SHARDS: usize = 4;

/// A way to free one kind of memory, for as long as the process lasts.
///
/// ```
/// use sheaves_rcu::defer::{Channel, barrier};
///
/// unsafe fn unmap(pointer: *mut u8) {
///     // munmap, fclose, or whatever ends such a thing.
/// #   drop(unsafe { Box::from_raw(pointer.cast::<u64>()) });
/// }
/// static MAPS: Channel = Channel::new("maps", unmap);
///
/// let pointer = Box::into_raw(Box::new(7_u64)).cast();
/// // SAFETY: nobody finds the object any more, and it is freed in no other way.
/// unsafe { MAPS.free_later(pointer, 8) };
/// barrier()?;
/// # Ok::<(), sheaves_rcu::defer::BarrierError>(())
/// ```
pub struct Channel {
    name: &'static str,
    free: unsafe fn(*mut u8),
    /// The next channel that is known.
    next: AtomicPtr<Channel>,
    is_known: AtomicBool,
    shards: [Shard; SHARDS],
}

/// The channel that became known last.
static CHANNELS: AtomicPtr<Channel> = AtomicPtr::new(null_mut());

impl core::fmt::Debug for Channel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Channel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Channel {
    /// A channel whose objects `free` frees.
    ///
    /// `free` runs as deferred calls do (see [`super::Call`]), but also in a thread that defers
    /// through a channel while there is more than `SHEAVES_RCU_HARD_BYTES`; that may be a reader.
    pub const fn new(name: &'static str, free: unsafe fn(*mut u8)) -> Channel {
        Channel {
            name,
            free,
            next: AtomicPtr::new(null_mut()),
            is_known: AtomicBool::new(false),
            shards: [const { Shard::new() }; SHARDS],
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Frees an object of `bytes` bytes once the readers of now are gone. The one-argument form:
    /// nothing is stored in the object.
    ///
    /// Takes a short lock, and a page of memory for every 508 objects. Where that is not to be had
    /// it **blocks**: waits for readers and frees the object itself. Inside of a read section,
    /// where that cannot be, the object is never freed, with a line on standard error for the
    /// first one. Not for signal handlers.
    ///
    /// # Safety
    /// Nobody but readers uses the object any more, and it is freed in no other way. The function
    /// of the channel may be called with it in another thread.
    pub unsafe fn free_later(&'static self, pointer: *mut u8, bytes: usize) {
        if self.is_twice(pointer) {
            return;
        }
        if let Err(NoBlock) = self.here().push(pointer, bytes) {
            self.free_slowly(pointer);
        }
    }

    /// [`Channel::free_later`] with a head in the object, for the case that there is no memory for
    /// a block: never blocks but for short locks, and never leaks.
    ///
    /// # Safety
    /// As there; and `head` is valid, zero or idle, and lies in the object at or behind `pointer`.
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

    /// Without a block and without a head.
    #[cold]
    fn free_slowly(&self, pointer: *mut u8) {
        if !reader::is_reading() && crate::synchronize_expedited().is_ok() {
            emergency::reach(emergency::WAITED);
            // SAFETY: readers are gone; the rest is the contract of `free_later`.
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

    /// Whoever walks all channels finds this one from now on.
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
        // A thread may have come so far that is not in this child of a fork.
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

    /// With debug assertions: is the address deferred already? Then says so in a line.
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

    /// Frees an object whose readers are gone.
    pub(super) fn free_one(&self, pointer: *mut u8) {
        watch::begin(watch::DRIVER, self.free as *const () as usize);
        // SAFETY: readers are gone; the rest is the contract of `free_later`.
        unsafe { (self.free)(pointer) };
    }
}

/// All channels that are known.
fn all() -> impl Iterator<Item = &'static Channel> {
    // Acquire pairs with the Release in `make_known`. [L1]
    let mut next = CHANNELS.load(Ordering::Acquire).cast_const();
    core::iter::from_fn(move || {
        // SAFETY: null, or a channel, which lives for good.
        let channel: &'static Channel = unsafe { next.as_ref() }?;
        // Relaxed: constant since it was published.
        next = channel.next.load(Ordering::Relaxed);
        Some(channel)
    })
}

/// Seals what is partial in every channel.
pub(super) fn seal_all() {
    all().flat_map(|channel| &channel.shards).for_each(Shard::seal);
}

/// Frees what is ready in every channel; true if there was something. For the driver.
pub(super) fn free_ready() -> bool {
    let mut any = false;
    for channel in all() {
        for shard in &channel.shards {
            // Relaxed: a hint that spares the lock.
            if shard.objects.load(Ordering::Relaxed) != 0 {
                any |= shard.free_ready(channel);
            }
        }
    }
    watch::end(watch::DRIVER);
    any
}

/// What waits in all channels, and the part of it that is linked.
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

/// Takes all locks for a fork. No channel becomes known meanwhile.
pub(super) fn acquire() {
    all().flat_map(|channel| &channel.shards).for_each(|shard| shard.waiting.acquire());
}

/// The same in a child whose fork has not prepared.
pub(super) fn recover() {
    all().flat_map(|channel| &channel.shards).for_each(Shard::recover);
}

/// Gives them back.
///
/// # Safety
/// Taken by [`acquire`] in the thread that forked.
pub(super) unsafe fn release() {
    for shard in all().flat_map(|channel| &channel.shards) {
        // SAFETY: the same contract.
        unsafe { shard.waiting.release() };
    }
}
