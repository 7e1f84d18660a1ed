//! The sheaves in the words of the slots.

use sheaves_percpu::internal::slots::{self, attach};
use sheaves_percpu::internal::{Cursor, EngineMode, Word, cmp_store, load, mode};

use crate::moves::tags;
use crate::space::cache_id::CacheId;

/// How often a slow path starts over because other threads changed the slot. After that it does
/// without one: in the portable engine all slots can be busy while a preempted thread holds one.
pub(crate) const ATTEMPTS: u32 = 64;

/// Takes the sheaf out of a word of the current slot, of a plain cache, if `wanted` accepts its
/// cursor. No entry is tagged.
pub(crate) fn take_untagged(
    id: CacheId,
    word: Word,
    wanted: impl Fn(Cursor) -> bool,
) -> Option<Cursor> {
    take_sheaf(word, wanted).map(|cursor| untag(id, cursor))
}

/// [`tags::untag_and_close`] for a sheaf that was taken out of a word. The caller owns it.
pub(crate) fn untag(id: CacheId, cursor: Cursor) -> Cursor {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    tags::untag_and_close(id, unsafe { cursor.objects() });
    cursor
}

/// Moves the objects that are to stay to the front, in their order; returns their number.
pub(crate) fn to_front(objects: &mut [usize], mut stays: impl FnMut(usize) -> bool) -> usize {
    let mut count = 0;
    for index in 0..objects.len() {
        if stays(objects[index]) {
            objects.swap(count, index);
            count += 1;
        }
    }
    count
}

/// Takes the sheaf out of a word of the current slot if `wanted` accepts its cursor. Entries may be
/// tagged.
pub(crate) fn take_sheaf(word: Word, wanted: impl Fn(Cursor) -> bool) -> Option<Cursor> {
    let cursor = load(word);
    if !cursor.is_sheaf() || !wanted(cursor) {
        return None;
    }
    // SAFETY: not the bootstrap cursor.
    unsafe { cmp_store(word, cursor, Cursor::VACANT) }.then_some(cursor)
}

/// Stores a sheaf that the caller owns in a word of the current slot, if `replaceable` accepts what
/// is there. Returns what was there, which is the caller's now; otherwise the sheaf as an error.
pub(crate) fn exchange(
    word: Word,
    cursor: Cursor,
    replaceable: impl Fn(Cursor) -> bool,
) -> Result<Cursor, Cursor> {
    loop {
        let current = load(word);
        if current == Cursor::BOOTSTRAP {
            // A drain has the slot's words, for which `attach` waits. Or every slot of the portable
            // engine is busy; then the thread goes on without one.
            if !attach() || (mode() == EngineMode::Portable && load(word) == Cursor::BOOTSTRAP) {
                break;
            }
            continue;
        }
        if !replaceable(current) {
            break;
        }
        // SAFETY: `current` is not the bootstrap cursor; the caller owns the sheaf of `cursor`.
        if unsafe { cmp_store(word, current, cursor) } {
            return Ok(current);
        }
    }
    Err(cursor)
}

/// Objects in the sheaves of some words, in all slots; approximate while other threads work.
pub(crate) fn objects_in(words: &[Word]) -> usize {
    let mut objects = 0;
    slots::observe(words, &mut |_, _, cursor| objects += cursor.fill());
    objects
}
