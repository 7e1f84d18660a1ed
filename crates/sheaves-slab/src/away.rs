//! Granules that a thread has in its hands between two holds of the chunks lock, and that are
//! nowhere else: they are being given back to the system, or a slab is being made of them.
//!
//! In the child of a fork they are free again, unless the thread is the one that forked.

use core::sync::atomic::{Ordering, compiler_fence};

use sheaves_sys::tls;

/// Threads at work on granules at one time, of which a child learns. What more of them have in
/// their hands is lost in a child; nobody gives memory to the system without a place.
const PLACES: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Place {
    /// The thread, by [`tls::thread_token`]; 0 in a place that is vacant.
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

    /// Granules of a chunk are with the calling thread from now on.
    pub(crate) fn send(&mut self, place: usize, index: usize, granules: u32) {
        (self.0[place].index, self.0[place].granules) = (index, granules);
        // SeqCst, for the compiler alone, here and below: also in a child whose fork has not
        // prepared a place that is taken is complete, and was taken before what follows.
        compiler_fence(Ordering::SeqCst);
        self.0[place].thread = tls::thread_token();
        // SeqCst, as above.
        compiler_fence(Ordering::SeqCst);
    }

    /// They are not any more.
    pub(crate) fn end(&mut self, place: usize) {
        // SeqCst, both: as in `send`.
        compiler_fence(Ordering::SeqCst);
        self.0[place].thread = 0;
        compiler_fence(Ordering::SeqCst);
    }

    /// Shows what is with other threads: chunk and granules; those that `visit` removes are with
    /// nobody any more.
    pub(crate) fn of_others(&mut self, mut visit: impl FnMut(usize, &mut u32)) {
        for place in &mut self.0 {
            if place.thread != 0 && place.thread != tls::thread_token() {
                visit(place.index, &mut place.granules);
            }
        }
    }

    /// Takes one out that is with another thread: its chunk and granules.
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
