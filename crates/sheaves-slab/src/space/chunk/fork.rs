//! The chunks lock in forks.

use super::advice::HugePages;
use super::state::CHUNKS;

/// Called in the parent after a fork: its chunks ask for no more huge pages.
pub(crate) fn note_child() {
    if let Some(mut chunks) = CHUNKS.try_lock()
        && chunks.huge_pages == HugePages::Auto
    {
        chunks.huge_pages = HugePages::Never;
    }
}

/// Called in the child after a fork: frees the granules that threads missing in the child were
/// working on. They may hold old contents.
pub(crate) fn free_in_progress_of_others() {
    // If this very thread held the lock before the fork, it is still taken. Then no other thread
    // was working on granules.
    let Some(mut chunks) = CHUNKS.try_lock() else { return };
    loop {
        let Some(entry) = chunks.in_progress.of_others().next() else { return };
        entry.thread = 0;
        let (index, granules) = (entry.index, entry.granules);
        chunks.give(index, granules, false);
    }
}
