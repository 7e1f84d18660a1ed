//! Granules that a thread works on between two holds of the chunks lock: it is discarding them, or
//! building a slab of them. They are in no other list.
//!
//! In the child of a fork they are free again, unless the thread is the one that forked.

use sheaves_sys::{fork, tls};

/// The most threads that are listed at one time. A child loses the granules of further threads that
/// build slabs; a thread that gets no entry discards nothing.
const ENTRIES: usize = 32;

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The thread, by [`tls::thread_pointer`]; 0 when the entry is vacant.
    pub(super) thread: usize,
    /// The process that the thread ran in, by [`fork::generation`].
    generation: usize,
    /// The chunk.
    pub(super) index: usize,
    /// The granules, one bit each.
    pub(super) granules: u32,
}

/// The list. Under the chunks lock.
#[derive(Debug)]
pub(super) struct InProgress([Entry; ENTRIES]);

impl InProgress {
    pub(super) const fn new() -> InProgress {
        InProgress([Entry { thread: 0, generation: 0, index: 0, granules: 0 }; ENTRIES])
    }

    /// Lists granules of a chunk as those of the calling thread; returns the entry, `None` when
    /// none is vacant.
    pub(super) fn begin(&mut self, index: usize, granules: u32) -> Option<usize> {
        let entry = self.0.iter().position(|entry| entry.thread == 0)?;
        let (thread, generation) = (tls::thread_pointer(), fork::generation());
        self.0[entry] = Entry { thread, generation, index, granules };
        Some(entry)
    }

    /// Removes them from the list.
    pub(super) fn end(&mut self, entry: usize) {
        self.0[entry].thread = 0;
    }

    /// The entries of threads that are not in this process.
    pub(super) fn of_gone(&mut self) -> impl Iterator<Item = &mut Entry> {
        let is_gone = |it: &Entry| fork::is_gone(it.thread, it.generation, usize::MAX);
        self.0.iter_mut().filter(move |entry| entry.thread != 0 && is_gone(entry))
    }
}
