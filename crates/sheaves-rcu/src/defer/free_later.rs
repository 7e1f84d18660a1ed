//! Deferring an object of a channel.

use core::sync::atomic::{Ordering, fence};

use super::store::emergency::{LEAKS, WAITS, free_without_memory, note_linked};
use super::store::head::Head;
use super::store::pressure::Pressure;
use super::store::shard::Pushed;
use super::work::channel::Channel;
use super::work::requests::{arm_age, start_batch};
use super::work::round;

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
        if self.is_twice(pointer) {
            return;
        }
        match self.here().push(pointer.expose_provenance(), bytes) {
            Some(pushed) => follow(pushed),
            None => {
                let (name, counts) = (self.name(), [&WAITS, &LEAKS]);
                let object = format_args!("{pointer:p} of channel {name}");
                free_without_memory(object, counts, || self.free_unwatched(pointer));
            }
        }
    }

    /// [`Channel::free_later`] with a head in the object, for when memory for a sheaf is out.
    /// Blocks on short locks only, and never leaks.
    ///
    /// # Safety
    /// As for [`Channel::free_later`]; and `head` is valid, zero or idle, and in the object, at or
    /// after `pointer`.
    pub unsafe fn free_later_with(&'static self, head: *mut Head, pointer: *mut u8, bytes: usize) {
        if self.is_twice(pointer) {
            return;
        }
        let address = pointer.expose_provenance();
        match self.here().push(address, bytes) {
            Some(pushed) => follow(pushed),
            // SAFETY: valid by the contract.
            None if unsafe { (*head).claim(head.expose_provenance() - address) } => {
                note_linked();
                follow(Pushed { is_first: true, sealed: Some(self.here().link(head, bytes)) });
            }
            None => {}
        }
    }
}

/// What follows a push, without locks.
fn follow(pushed: Pushed) {
    if pushed.is_first {
        // SeqCst: the push is before the load of the word. [A1]
        fence(Ordering::SeqCst);
        arm_age();
    }
    if let Some(batch) = pushed.sealed
        && start_batch(batch) == Pressure::Hard
    {
        round::help();
    }
}
