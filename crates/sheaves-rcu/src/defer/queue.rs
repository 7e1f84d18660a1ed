//! Queues of batches that wait for their cookies, oldest first.
//!
//! A batch is a unit of memory (a sheaf of heads, or a block of addresses) that begins with a
//! header. It is sealed: nothing is added to it any more. Its cookie is taken after sealing, so it
//! is later than each of its entries.
//!
//! A batch that is being reclaimed stays at the front of its queue, and its index is advanced
//! before each entry is processed. So the child of a fork goes on where its parent was, except for
//! the one entry that another thread was processing.
//!
//! `first` and the links define what is in the queue, at every instruction of a change. In the
//! child of a fork that ran no `prepare` handler, `last` is derived from them.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU16, Ordering, compiler_fence};

use crate::cookie::Cookie;

/// The header of a sealed batch.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Batch {
    /// Address of the next batch, 0 for none.
    next: usize,
    cookie: u64,
    /// Index of the next entry to be reclaimed, written by the driver; and of the end.
    at: AtomicU16,
    end: u16,
    /// Number of entries that were sealed.
    pub(super) count: u32,
    pub(super) bytes: usize,
}

/// Size of a batch's header, in words.
pub(super) const HEADER_WORDS: usize = size_of::<Batch>() / 8;

const _: () = assert!(size_of::<Batch>().is_multiple_of(8));

impl Batch {
    /// Takes the index of the next entry, which belongs to the caller then.
    ///
    /// # Safety
    /// The batch is at the front of its queue, and the caller is the driver or its worker for this
    /// queue: only it advances the batch. Other threads may change the batch's link meanwhile.
    pub(super) unsafe fn advance(batch: *mut Batch) -> Option<usize> {
        // SAFETY: valid by the contract; no reference to the whole batch is made.
        let at = unsafe { &(*batch).at };
        // SAFETY: as above; constant after sealing.
        let end = unsafe { (*batch).end };
        // Relaxed, both: only the driver writes it; others read it as a hint.
        let index = at.load(Ordering::Relaxed);
        if index == end {
            return None;
        }
        at.store(index + 1, Ordering::Relaxed);
        Some(usize::from(index))
    }
}

/// The queue, by the addresses of its batches. Protected by a lock of its owner.
#[derive(Debug)]
pub(super) struct Queue {
    first: usize,
    last: usize,
}

impl Queue {
    pub(super) const fn new() -> Queue {
        Queue { first: 0, last: 0 }
    }

    /// Takes a cookie for a batch and appends it. Under a lock, so that cookies ascend.
    ///
    /// # Safety
    /// `unit` is memory of the caller with room for a header, and the entries in `at..end` are
    /// written. Nothing is added to them.
    pub(super) unsafe fn append(
        &mut self,
        unit: usize,
        at: usize,
        end: usize,
        bytes: usize,
    ) -> Cookie {
        // After the last entry was added: a reader that may use one of the objects began before.
        let cookie = Cookie::get();
        let batch = Batch {
            next: 0,
            cookie: cookie.to_bits(),
            at: AtomicU16::new(at as u16),
            end: end as u16,
            count: (end - at) as u32,
            bytes,
        };
        // SAFETY: room for the header by the contract, at the start of an aligned unit.
        unsafe { with_exposed_provenance_mut::<Batch>(unit).write(batch) };
        // SeqCst, for the compiler only: a linked batch is complete, see `recover`.
        compiler_fence(Ordering::SeqCst);
        if self.last == 0 {
            self.first = unit;
        } else {
            // SAFETY: a batch of this queue, under the owner's lock.
            unsafe { (*with_exposed_provenance_mut::<Batch>(self.last)).next = unit };
        }
        self.last = unit;
        cookie
    }

    /// Address of the oldest batch if its cookie has passed. The batch stays in the queue.
    pub(super) fn ready(&self) -> Option<usize> {
        if self.first == 0 {
            return None;
        }
        // SAFETY: a batch of this queue; its cookie does not change.
        let cookie = unsafe { (*with_exposed_provenance_mut::<Batch>(self.first)).cookie };
        Cookie::from_bits(cookie).has_passed().then_some(self.first)
    }

    /// Removes the oldest batch.
    pub(super) fn remove_first(&mut self) {
        // SAFETY: the caller has it from `ready`, and only the caller removes batches.
        self.first = unsafe { (*with_exposed_provenance_mut::<Batch>(self.first)).next };
        if self.first == 0 {
            self.last = 0;
        }
    }

    /// In the child of a fork, if a thread that does not exist here was changing the queue. Returns
    /// the entries and bytes of all batches.
    pub(super) fn recover(&mut self) -> (usize, usize) {
        let (mut next, mut entries, mut bytes) = (self.first, 0, 0);
        self.last = 0;
        while next != 0 {
            let batch = with_exposed_provenance_mut::<Batch>(next);
            self.last = next;
            // SAFETY: a batch of this queue, under the owner's lock.
            next = unsafe { (*batch).next };
            // SAFETY: as above.
            entries += unsafe { (*batch).count } as usize;
            // SAFETY: as above.
            bytes += unsafe { (*batch).bytes };
        }
        (entries, bytes)
    }

    /// The address of each batch and its entries that are not reclaimed yet, oldest first.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, core::ops::Range<usize>)> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            if next == 0 {
                return None;
            }
            let batch = with_exposed_provenance_mut::<Batch>(next);
            let found = next;
            // SAFETY: a batch of this queue, under the owner's lock.
            next = unsafe { (*batch).next };
            // SAFETY: as above.
            let at = unsafe { &(*batch).at };
            // SAFETY: as above; constant after sealing.
            let end = unsafe { (*batch).end };
            // Relaxed: a hint if the driver is advancing it.
            Some((found, usize::from(at.load(Ordering::Relaxed))..usize::from(end)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_batch_follows_from_the_links() {
        let mut units = [[0_u64; 16]; 4];
        let [first, second, third, fourth] =
            units.each_mut().map(|unit| unit.as_mut_ptr().expose_provenance());
        let mut queue = Queue::new();
        assert_eq!(queue.recover(), (0, 0));
        for (unit, entries) in [(first, 1), (second, 2), (third, 3)] {
            let end = HEADER_WORDS + entries;
            // SAFETY: memory of this test with room for that.
            unsafe { queue.append(unit, HEADER_WORDS, end, 100 * entries) };
        }
        // Stale values of `last`, as an interrupted change leaves them.
        for last in [second, first, 0] {
            queue.last = last;
            assert_eq!((queue.recover(), queue.last), ((6, 600), third));
        }
        // SAFETY: as above.
        unsafe { queue.append(fourth, HEADER_WORDS, HEADER_WORDS + 4, 400) };
        assert!(queue.each().map(|(unit, _)| unit).eq([first, second, third, fourth]));
        queue.first = 0;
        assert_eq!((queue.recover(), queue.last), ((0, 0), 0));
    }
}
