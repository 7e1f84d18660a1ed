//! Tagged entries: how an allocation becomes a sample without an instruction on a fast path.
//!
//! An entry of a sheaf can be *tagged*: bit 0 of the object's address is set. `pop` tests this bit
//! anyway, since it is how it knows the sentinel. So it leaves a tagged entry alone, and the slow
//! path takes the object out and makes it a sample.
//!
//! While samples are drawn, the sheaf from which a plain cache allocates is filled by slow paths
//! only. They tag each entry with the probability of a sample, see [`profile::chance`]:
//!
//! | cache | allocates from | frees onto | a word's sheaf is filled by |
//! |---|---|---|---|
//! | any, while none are drawn | main word | main word | frees and slow paths |
//! | any, while some are | spare word | main word | the spare one's by slow paths |
//! | a named one, with guard samples | spare word | spare word | slow paths; its main is vacant |
//!
//! `malloc` finds the word in the heap's table of sizes, which is switched; handles of caches and
//! callers with a layout know the main word, and find the spare one by a table of bases that is
//! switched, see `slots::set_source`. `free` goes on to push onto the main word. When the spare
//! word's sheaf is empty, the main word's sheaf takes its place, and each of its entries gets a new
//! tag, or none. While there are guard samples, each free of a named cache takes the slow path,
//! which looks at the address.
//!
//! So estimates have no bias, whatever the program frees, and in which order: between two
//! allocations of one object its entry is drawn anew, and nothing that the program does depends on
//! what was drawn, since that shows when the entry is popped. An allocation is a sample with
//! exactly the probability whose reciprocal is its weight. Only for a moment, while the tables are
//! switched, other threads may allocate without a draw.
//!
//! Entries outside of spare words are not tagged: what takes a sheaf out of a word calls
//! [`untag_and_close`], or looks at each entry itself. Tags that are thrown away so are drawn again
//! when the sheaf enters a word. Once no samples are drawn, a spare sheaf keeps its tags until
//! then.
//!
//! Samples are objects of *watched* slabs, whose entries in the owner map lead `free` to the slow
//! path. That ends the record of the sample, and the object goes back to its slab. Frees that do
//! not read the owner map (with a layout, and of named caches unless there are guard samples) leave
//! the record until the object's sheaf is untagged. While samples are drawn that is before the
//! object is allocated again.

use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_percpu::internal::{Cursor, Word};

use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::records::profile::{self, chance};
use crate::records::trap;
use crate::space::cache_id::{CacheId, NAMED_FIRST};
use crate::space::granule::is_watched;

/// The bit of a tagged entry.
pub(crate) const TAG: usize = 1;

/// What the words of a plain cache are for, see the head of this file. The main word of any other
/// is vacant. A slow path that goes on with what was true before a switch leaves a sheaf without
/// tags, or tags that are not needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roles {
    /// Objects are allocated from this word.
    pub(crate) source: Word,
    /// Objects are freed onto this word.
    pub(crate) sink: Word,
    /// Where a second sheaf is; in no word where frees are drawn.
    pub(crate) second: Option<Word>,
}

impl Roles {
    #[inline]
    pub(crate) fn of(id: CacheId) -> Roles {
        let [main, spare] = [id.main(), id.spare()];
        let is_drawn = is_drawing() && id.shape().is_plain();
        match (is_drawn, id.is_class() || trap::one_in() == 0) {
            (false, _) => Roles { source: main, sink: main, second: Some(spare) },
            (true, true) => Roles { source: spare, sink: main, second: Some(main) },
            (true, false) => Roles { source: spare, sink: spare, second: None },
        }
    }

    /// True if the second sheaf is to be allocated from. One that is filled by frees only waits for
    /// more, so that few objects do not change places often.
    pub(crate) fn is_ready(self, cursor: Cursor) -> bool {
        let wanted = if self.source == self.sink { 1 } else { cursor.sheaf().capacity() / 2 };
        cursor.fill() >= wanted.max(1)
    }

    /// Entries of the sink are drawn, since it is the source.
    pub(crate) fn draws_frees(self) -> bool {
        self.second.is_none()
    }
}

/// While samples are drawn, a sheaf may hold this many bytes of objects, and this many objects that
/// are larger, but of those no more bytes than [`DRAWN_BYTES_MAX`], even if few are in use.
const DRAWN_BYTES: usize = 32 << 10;
const DRAWN_MIN: usize = 16;
const DRAWN_BYTES_MAX: usize = 512 << 10;

/// Gives a new sheaf of a cache its size, or an empty one that stays in its slot: larger where
/// objects only go round between two words, so that they change places rarely.
pub(crate) fn sized(id: CacheId, empty: Cursor) -> Cursor {
    let shape = id.shape();
    if !is_drawing() || !shape.is_plain() {
        return empty;
    }
    let objects = drawn_objects(shape);
    let is_small = empty.sheaf().capacity() < objects;
    if is_small { pool::format(empty.sheaf(), objects) } else { empty }
}

fn drawn_objects(shape: &Shape) -> usize {
    let least = DRAWN_MIN.min(DRAWN_BYTES_MAX / shape.stride);
    (DRAWN_BYTES / shape.stride).max(least).min(shape.sheaf_objects)
}

/// Samples are drawn.
#[inline]
pub(crate) fn is_drawing() -> bool {
    profile::tag_rate() != 0
}

/// Blocks of malloc are freed by their layout in this process.
static FREES_BY_LAYOUT: AtomicBool = AtomicBool::new(false);

/// Notes that blocks of malloc are freed without a look into the owner map. Called before the first
/// is allocated so.
#[inline]
pub fn note_frees_by_layout() {
    // Relaxed, both: a thread that frees such a block has got it by an ordered path.
    if !FREES_BY_LAYOUT.load(Ordering::Relaxed) {
        FREES_BY_LAYOUT.store(true, Ordering::Relaxed);
    }
}

/// Tags objects that are about to enter a source, or to be allocated. None of them is tagged.
#[inline]
pub(crate) fn tag(shape: &Shape, objects: &mut [usize]) {
    let rate = profile::tag_rate();
    if rate != 0 {
        tag_slow(shape, objects, rate);
    }
}

#[cold]
fn tag_slow(shape: &Shape, objects: &mut [usize], rate: usize) {
    let mut rest = objects;
    while let Some(first) = chance::first_sample(rest.len(), shape.stride, rate) {
        rest[first] |= TAG;
        rest = &mut rest[first + 1..];
    }
}

/// Removes the tags of objects whose sheaf has left a word, and ends the records of samples that
/// were freed without a note.
#[inline]
pub(crate) fn untag_and_close(id: CacheId, objects: &mut [usize]) {
    if profile::is_used() {
        objects.iter_mut().for_each(|object| *object &= !TAG);
        // Only frees without a look into the owner map push the address of a guarded block.
        if trap::is_live() && has_unnoted_frees(id) {
            trap::replace_traps(objects);
        }
        if may_have_unnoted(id) {
            close_all(objects);
        }
    }
}

/// Ends the records of deferred objects that are free now.
#[inline]
pub(crate) fn close_deferred(id: CacheId, objects: &mut [usize]) {
    if trap::is_live() {
        trap::replace_traps(objects);
    }
    if profile::is_used() && (profile::deferred_records() != 0 || may_have_unnoted(id)) {
        close_all(objects);
    }
}

/// Notes that objects are deferred whose deferral was not noted yet.
#[inline]
pub(crate) fn note_deferred(id: CacheId, objects: &[usize]) {
    if trap::is_live() && has_unnoted_frees(id) {
        trap::note_deferred(objects);
    }
    if profile::is_used() && may_have_unnoted(id) {
        for object in objects.iter().filter(|object| is_watched(**object)) {
            profile::defer(*object, sheaves_sys::stack::Frame::NONE);
        }
    }
}

fn may_have_unnoted(id: CacheId) -> bool {
    has_unnoted_frees(id) && profile::open_records() != 0
}

/// Objects of the cache may be freed without a look into the owner map.
pub(crate) fn has_unnoted_frees(id: CacheId) -> bool {
    // Relaxed: see `note_frees_by_layout`.
    usize::from(id.number()) >= NAMED_FIRST || FREES_BY_LAYOUT.load(Ordering::Relaxed)
}

#[cold]
fn close_all(objects: &[usize]) {
    for object in objects.iter().filter(|object| is_watched(**object)) {
        profile::close(*object);
    }
}

/// Ends the record of an object that is freed by the slow path, if it has one. Returns the object
/// to push. `None` if it is to return to its slab: objects of watched slabs are for samples.
#[inline]
pub(crate) fn freed(object: usize) -> Option<usize> {
    if profile::is_used() && (is_watched(object) || trap::contains(object)) {
        freed_watched(object)
    } else {
        Some(object)
    }
}

#[cold]
fn freed_watched(object: usize) -> Option<usize> {
    if trap::contains(object) {
        let mut one = [object];
        trap::replace_traps(&mut one);
        return Some(one[0]);
    }
    profile::close(object);
    None
}

#[cfg(test)]
#[path = "../../tests/unit/tags.rs"]
mod tests;
