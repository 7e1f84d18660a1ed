//! The sheaves in the words of the slots.

use sheaves_percpu::internal::{Cursor, Word, cmp_store, load, slots};

use crate::cache_id::CacheId;
use crate::tags;

/// Takes the main sheaf of the current slot if `wanted` accepts its cursor.
pub(crate) fn take_main(id: CacheId, wanted: impl Fn(Cursor) -> bool) -> Option<Cursor> {
    take_sheaf(id.main(), wanted).map(|cursor| clean(id, cursor))
}

/// Removes what is special about the entries of a main sheaf that was taken out of a slot. The
/// caller owns it.
pub(crate) fn clean(id: CacheId, cursor: Cursor) -> Cursor {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    tags::clean(id, unsafe { cursor.objects() });
    cursor
}

/// Takes the sheaf out of a word of the current slot if `wanted` accepts its cursor. One from the
/// main word may have tagged entries.
pub(crate) fn take_sheaf(word: Word, wanted: impl Fn(Cursor) -> bool) -> Option<Cursor> {
    let cursor = load(word);
    if !cursor.is_sheaf() || !wanted(cursor) {
        return None;
    }
    // SAFETY: not the bootstrap cursor.
    unsafe { cmp_store(word, cursor, Cursor::VACANT) }.then_some(cursor)
}

/// Objects in the sheaves of some words, in all slots; approximate while other threads work.
pub(crate) fn objects_in(words: &[Word]) -> usize {
    let mut objects = 0;
    slots::observe(words, &mut |_, _, cursor| objects += cursor.fill());
    objects
}
