//! Chunks of 2 MiB, and the runs of granules allocated from them.
//!
//! Per chunk there are three bits for each of its 32 granules:
//!
//! | free | clean | young | the granule |
//! |---|---|---|---|
//! | 0 | - | - | is in use, not mapped yet, or occupied by another mapping |
//! | 1 | 1 | 0 | is free and reads as zero: never used, or discarded |
//! | 1 | 0 | 1 | is free, holds old contents, freed since the last tick |
//! | 1 | 0 | 0 | is free, holds old contents, freed before the last tick: discarded at the next |
//!
//! Runs are placed at the lowest address where they fit, so that the heap stays dense and chunks at
//! its end become free; but in granules with old contents first. The keeper ticks. While
//! there is none, the threads that use caches do; what is free above a limit goes back at once, in
//! pieces.
//!
//! All of this is under one lock, except the system calls that return memory, which take 0.1 ms for
//! each MiB: they are made without any lock. Meanwhile the granules are in a list of their own, see
//! `in_progress`.

mod advice;
mod bits;
mod deal;
mod dense;
mod discard;
mod due;
mod in_progress;
mod run;
mod state;

pub(crate) use advice::HugePages;
pub use deal::{do_due_after_alloc, do_due_after_free};
pub(crate) use deal::{free_in_progress_of_gone, is_filled_again};
pub(crate) use discard::{PIECE_GRANULES, note_tick, tick};
pub use discard::{note_holes, trim};
pub use due::{note_other_bytes, note_unused};
pub(crate) use due::{note_sweep, note_use};
pub(crate) use run::note_child;
pub use run::{Footprint, footprint};
pub(crate) use run::{Run, begin_run, finish_run, release_run};
pub(crate) use state::CHUNKS;

#[cfg(test)]
#[path = "../../../tests/unit/chunk.rs"]
mod tests;
