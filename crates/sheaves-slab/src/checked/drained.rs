//! What is taken out of slots: of hardened caches it goes into quarantine, or back.

use sheaves_percpu::internal::{Cursor, Word, slots};
use sheaves_rcu::defer::Reach;

use crate::checked::quarantine;
use crate::moves::{flush, slot};
use crate::space::cache_id::CacheId;

/// Flushes the sheaves of any cache in the slots that the caller may reach. False if one of the
/// others has objects.
pub(crate) fn flush_slots(id: CacheId, reach: Reach) -> bool {
    let words = id.words();
    // See `quarantine`.
    let _section = sheaves_rcu::read();
    let (taken, is_complete) = slots::take(&words, reach);
    taken.for_each(|(index, cursor)| put_away(id, words[index], cursor));
    is_complete
}

/// Flushes a sheaf that a drain has taken out of one of [`CacheId::words`], in the caller's read
/// section. That of a hardened cache goes into quarantine, or back.
pub(crate) fn put_away(id: CacheId, word: Word, cursor: Cursor) {
    match id.shape().hardened.then(|| id.hardened_words()) {
        None => flush::flush_sheaf(id, slot::clean(id, cursor)),
        Some([freed, _]) if word == freed => quarantine::seal(id, cursor),
        Some(_) => quarantine::put_back(id, cursor),
    }
}
