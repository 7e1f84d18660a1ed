//! Deferring an object of a channel.

use core::sync::atomic::{Ordering, fence};

use super::store::emergency::{LEAKS, LINKED, WAITS, free_without_memory};
use super::store::pressure::Pressure;
use super::store::shard::Batch;
use super::work::channel::Channel;
use super::work::requests::{arm_age, start_batch};
use super::work::{driver, round};
use crate::heads::Head;

impl Channel {
    /// Frees an object of `bytes` bytes after a grace period. Stores nothing in the object.
    ///
    /// Takes a short lock, and 1 KiB of memory for every 124 objects. If memory is out it
    /// **blocks**: it waits for a grace period and frees the object itself. Inside a read section,
    /// where that would deadlock, it leaks the object, and reports the first one. Not for signal
    /// handlers.
    ///
    /// # Safety
    /// Only readers still use the object, and it is freed in no other way. It may be freed in
    /// another thread.
    pub unsafe fn free_later(&'static self, pointer: *mut u8, bytes: usize) {
        if !self.push(pointer, bytes) {
            let object = format_args!("{pointer:p} of channel {}", self.name());
            free_without_memory(object, [&WAITS, &LEAKS], || self.free_unwatched(pointer));
        }
    }

    /// [`Channel::free_later`] with a head in the object, for when memory for a sheaf is out.
    /// Blocks on short locks only, and never leaks.
    ///
    /// # Safety
    /// As for [`Channel::free_later`]; and `head` is valid, zero or idle, and in the object, at or
    /// after `pointer`.
    pub unsafe fn free_later_with(&'static self, head: *mut Head, pointer: *mut u8, bytes: usize) {
        let offset = || head.expose_provenance() - pointer.addr();
        // SAFETY: valid by the contract.
        if !self.push(pointer, bytes) && unsafe { &*head }.claim(offset()) {
            // Relaxed: statistics.
            LINKED.fetch_add(1, Ordering::Relaxed);
            follow(true, Some(self.here().link(head, bytes)));
        }
    }

    /// False if memory for a sheaf is out. An object that is deferred twice is reported.
    fn push(&'static self, pointer: *mut u8, bytes: usize) -> bool {
        if self.is_twice(pointer) {
            return true;
        }
        let pushed = self.here().push(pointer.expose_provenance(), bytes);
        pushed.map(|(is_first, sealed)| follow(is_first, sealed)).is_some()
    }
}

/// What follows a push, without locks.
fn follow(is_first: bool, sealed: Option<Batch>) {
    driver::note_deferred();
    if is_first {
        // SeqCst: the push is before the load of the word. [A1]
        fence(Ordering::SeqCst);
        arm_age();
    }
    if let Some(batch) = sealed
        && start_batch(batch) == Pressure::Hard
    {
        round::help();
    }
}
