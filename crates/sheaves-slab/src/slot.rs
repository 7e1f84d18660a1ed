//! The sheaves in the words of the slots.

use sheaves_percpu::internal::{Cursor, Word, cmp_store, load, slots};

/// Takes the sheaf out of a word of the current slot if `wanted` accepts its cursor.
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
