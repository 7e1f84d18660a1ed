//! Tagged entries: how an allocation becomes a sample without an instruction on a fast path.
//!
//! An entry of a main sheaf can be *tagged*: bit 0 of the object's address is set. `pop` tests this
//! bit anyway, since it is how it knows the sentinel. So it leaves a tagged entry alone, and the
//! slow path takes the object out and makes it a sample.
//!
//! While profiling is on, each object of a sheaf gets a tag with the same probability when the
//! sheaf enters a slot, see [`profile::chance`]. The tag is the object's until its sheaf leaves the
//! slots: a sample that is freed comes back with a tag, to where any other object would come. So
//! each allocation is as likely to be a sample, whatever the program frees and allocates. Objects
//! from before profiling was turned on get a tag with that probability when they are freed: see
//! [`super::earlier`].
//!
//! | where an object is | its entry |
//! |---|---|
//! | in a main sheaf of a slot | perhaps tagged |
//! | in any other sheaf | not tagged |
//!
//! Everything that takes a sheaf out of a slot calls [`untag_and_close`], or looks at each entry
//! itself.
//!
//! Samples are objects of *watched* slabs, whose entries in the owner map lead `free` to the slow
//! path. That ends the record of the sample. Frees that do not read the owner map (of named
//! caches, and with a layout) leave the record until the object's sheaf is untagged. If the
//! object is allocated again before, its record still tells the caller of the earlier allocation.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::moves::earlier;
use crate::parts::shape::Shape;
use crate::records::profile::{self, chance};
use crate::records::trap;
use crate::space::cache_id::{CacheId, NAMED_FIRST};
use crate::space::granule::is_watched;

/// The bit of a tagged entry.
const TAG: usize = 1;

/// An entry of a main sheaf: an object, perhaps tagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entry(usize);

impl Entry {
    /// The entry that a main sheaf had, or that [`tag`] has made of an object.
    pub(crate) fn from_bits(bits: usize) -> Entry {
        Entry(bits)
    }

    /// What the sheaf holds.
    pub(crate) fn bits(self) -> usize {
        self.0
    }

    pub(crate) fn object(self) -> usize {
        self.0 & !TAG
    }

    pub(crate) fn is_tagged(self) -> bool {
        self.0 & TAG != 0
    }
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

/// Tags objects that are about to enter a slot, or to be allocated. None of them is tagged.
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

/// Removes the tags of objects that have left a slot's main sheaf, and ends the records of samples
/// that were freed without a note.
#[inline]
pub(crate) fn untag_and_close(id: CacheId, objects: &mut [usize]) {
    if profile::is_used() {
        for object in &mut *objects {
            *object &= !TAG;
        }
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

/// Ends the record of an object that is freed by the slow path, if it has one. Returns the entry to
/// push. `None` if it is to return to its slab: objects of a slab for samples are taken for samples
/// only, and an empty one becomes an ordinary one.
#[inline]
pub(crate) fn freed(id: CacheId, object: usize) -> Option<Entry> {
    if profile::is_used() && (is_watched(object) || trap::contains(object)) {
        freed_watched(id, object)
    } else {
        Some(Entry(object))
    }
}

#[cold]
fn freed_watched(id: CacheId, object: usize) -> Option<Entry> {
    if trap::contains(object) {
        let mut one = [object];
        trap::replace_traps(&mut one);
        return Some(entry_of_trap(one[0]));
    }
    let was_sample = profile::close(object);
    let earlier = earlier::note_freed(id, object);
    if profile::tag_rate() != 0 && (was_sample || earlier == Some(true)) {
        return Some(Entry(object | TAG));
    }
    // Without a tag the object would go on to be allocated, and freed by this slow path each time.
    earlier.map(|_| Entry(object))
}

/// The entry of an object in whose place a guarded block was, which is free now: it has its tag
/// back.
pub(crate) fn entry_of_trap(object: usize) -> Entry {
    Entry(if profile::tag_rate() == 0 { object } else { object | TAG })
}

#[cfg(test)]
#[path = "../../tests/unit/tags.rs"]
mod tests;
