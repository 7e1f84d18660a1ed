//! Batches that wait for their cookies, oldest first.
//!
//! A batch is a unit of memory (a sheaf of heads, a block of addresses) that begins with what is
//! known of it. It is sealed: nothing is ever added to it. Its cookie was made afterwards, so it is
//! younger than each of its entries.
//!
//! A batch that is being taken back stays in front, and says how far that has come before each
//! entry. So a child of a fork goes on where its parent was, without the one entry that another
//! thread had in its hands.
//!
//! `first` and the links say what is in the queue, also at every instruction of a change: in a
//! child whose fork has not prepared `last` follows from them.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU16, Ordering, compiler_fence};

use crate::cookie::Cookie;

/// What is known of a sealed batch, at its beginning.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Batch {
    /// Address of the next batch, 0 for none.
    next: usize,
    cookie: u64,
    /// Index of the next entry to be taken back, written by the driver; and of the end.
    at: AtomicU16,
    end: u16,
    /// How many entries were sealed.
    pub(super) count: u32,
    pub(super) bytes: usize,
}

/// Words of a batch's header.
pub(super) const HEADER_WORDS: usize = size_of::<Batch>() / 8;

const _: () = assert!(size_of::<Batch>().is_multiple_of(8));

impl Batch {
    /// Takes the number of the next entry, which is the caller's from now on.
    ///
    /// # Safety
    /// The batch is in front of its queue, and the caller is the driver or works for it there: it
    /// alone changes how far the batch has come. Others may change its link meanwhile.
    pub(super) unsafe fn advance(batch: *mut Batch) -> Option<usize> {
        // SAFETY: valid by the contract; no reference is made to the whole of it.
        let at = unsafe { &(*batch).at };
        // SAFETY: as above; it does not change once it is sealed.
        let end = unsafe { (*batch).end };
        // Relaxed, both: the driver's own; others take it for a hint.
        let index = at.load(Ordering::Relaxed);
        if index == end {
            return None;
        }
        at.store(index + 1, Ordering::Relaxed);
        Some(usize::from(index))
    }
}

/// Addresses of batches. Under a lock of its owner.
#[derive(Debug)]
pub(super) struct Queue {
    first: usize,
    last: usize,
}

impl Queue {
    pub(super) const fn new() -> Queue {
        Queue { first: 0, last: 0 }
    }

    /// Stamps a batch and puts it at the end. Under a lock, so that cookies ascend.
    ///
    /// # Safety
    /// `unit` is memory of the caller with room for a header and the entries in `at..end`, which
    /// are written. Nobody adds to them.
    pub(super) unsafe fn append(
        &mut self,
        unit: usize,
        at: usize,
        end: usize,
        bytes: usize,
    ) -> Cookie {
        // After the last entry came: whoever reads what one of them stands for began before.
        let cookie = Cookie::get();
        let batch = Batch {
            next: 0,
            cookie: cookie.to_bits(),
            at: AtomicU16::new(at as u16),
            end: end as u16,
            count: (end - at) as u32,
            bytes,
        };
        // SAFETY: room for it by the contract, at the beginning of an aligned unit.
        unsafe { with_exposed_provenance_mut::<Batch>(unit).write(batch) };
        // SeqCst, for the compiler alone: what is linked is complete, see `recover`.
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

    /// Address of the oldest batch if its cookie has passed. It stays where it is.
    pub(super) fn ready(&self) -> Option<usize> {
        if self.first == 0 {
            return None;
        }
        // SAFETY: a batch of this queue; its cookie does not change.
        let cookie = unsafe { (*with_exposed_provenance_mut::<Batch>(self.first)).cookie };
        Cookie::from_bits(cookie).has_passed().then_some(self.first)
    }

    /// Takes the oldest batch out.
    pub(super) fn remove_first(&mut self) {
        // SAFETY: the caller has it from `ready`, and is the only one who removes.
        self.first = unsafe { (*with_exposed_provenance_mut::<Batch>(self.first)).next };
        if self.first == 0 {
            self.last = 0;
        }
    }

    /// In a child of a fork, where a thread that is not there was changing the queue. The entries
    /// and bytes of all batches.
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

    /// Address, and entries still to be taken back, of each batch, from the oldest on.
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
            // SAFETY: as above; it does not change.
            let end = unsafe { (*batch).end };
            // Relaxed: the driver may be at it, then this is a hint.
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
        // The third was linked, or the second one removed the first, and nothing else was written.
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
