//! Granules that a thread works on between two holds of the chunks lock: it is discarding them, or
//! building a slab of them. They are in no other list.
//!
//! In the child of a fork they are free again, unless the thread is the one that forked.

use core::sync::atomic::{Ordering, compiler_fence};

use sheaves_sys::tls;

/// The most threads that are listed at one time. A child loses the granules of further threads that
/// build slabs; a thread that gets no place discards nothing.
const PLACES: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Place {
    /// The thread, by [`tls::thread_token`]; 0 when the place is vacant.
    thread: usize,
    /// The chunk.
    index: usize,
    /// The granules, one bit each.
    granules: u32,
}

/// The list. Under the chunks lock.
#[derive(Debug)]
pub(crate) struct Away([Place; PLACES]);

impl Away {
    pub(crate) const fn new() -> Away {
        Away([Place { thread: 0, index: 0, granules: 0 }; PLACES])
    }

    pub(crate) fn vacant_place(&self) -> Option<usize> {
        self.0.iter().position(|place| place.thread == 0)
    }

    /// Lists granules of a chunk as those of the calling thread.
    pub(crate) fn send(&mut self, place: usize, index: usize, granules: u32) {
        (self.0[place].index, self.0[place].granules) = (index, granules);
        // SeqCst, for the compiler alone, here and below: also in a child whose fork was not
        // prepared a taken place is complete, and was taken before what follows.
        compiler_fence(Ordering::SeqCst);
        self.0[place].thread = tls::thread_token();
        // SeqCst, as above.
        compiler_fence(Ordering::SeqCst);
    }

    /// Removes them from the list.
    pub(crate) fn end(&mut self, place: usize) {
        // SeqCst, both: as in `send`.
        compiler_fence(Ordering::SeqCst);
        self.0[place].thread = 0;
        compiler_fence(Ordering::SeqCst);
    }

    /// Calls `visit` with chunk and granules of each place of another thread. Bits that `visit`
    /// clears leave the list.
    pub(crate) fn of_others(&mut self, mut visit: impl FnMut(usize, &mut u32)) {
        for place in &mut self.0 {
            if place.thread != 0 && place.thread != tls::thread_token() {
                visit(place.index, &mut place.granules);
            }
        }
    }

    /// Removes one place of another thread; returns its chunk and granules.
    pub(crate) fn take_of_others(&mut self) -> Option<(usize, u32)> {
        let is_others =
            |place: &&mut Place| place.thread != 0 && place.thread != tls::thread_token();
        let place = self.0.iter_mut().find(is_others)?;
        place.thread = 0;
        Some((place.index, place.granules))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn what_is_with_this_thread_stays() {
        let mut away = Away::new();
        away.send(0, 5, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| away.send(1, 6, 2));
        });
        assert_eq!(away.vacant_place(), Some(2));
        assert_eq!(away.take_of_others(), Some((6, 2)));
        assert_eq!(away.take_of_others(), None);
        assert_eq!(away.vacant_place(), Some(1));
        away.end(0);
        assert_eq!(away.vacant_place(), Some(0));
    }
}
