//! What comes back from slots and from grace periods, by the mode of its cache: to the depot or to
//! slabs, or into quarantine.

use sheaves_percpu::internal::{Cursor, Word, slots};
use sheaves_sys::membarrier::Reach;

use crate::checked::{debug, quarantine};
use crate::moves::{flush, slot};
use crate::space::cache_id::CacheId;
use crate::space::checking::Checking;

/// Flushes the sheaves of any cache in the slots that the caller may reach. False if one of the
/// others has objects.
pub(crate) fn flush_slots(id: CacheId, reach: Reach) -> bool {
    flush_where(&[id], &id.words(), reach, slots::ALL)
}

/// Flushes the sheaves of caches in their words, two of each, for which `is_wanted` is true of the
/// word's index, the slot, and the cursor. False as for [`flush_slots`].
pub(crate) fn flush_where(
    ids: &[CacheId],
    words: &[Word],
    reach: Reach,
    is_wanted: &dyn Fn(usize, usize, Cursor) -> bool,
) -> bool {
    let (taken, is_complete) = slots::take(words, reach, is_wanted);
    for (index, cursor) in taken {
        let id = ids[index / 2];
        match id.shape().checking {
            Checking::Plain => _ = flush::flush_sheaf(id, slot::untag(id, cursor)),
            _ if words[index] == id.hardened_words()[0] => quarantine::append(id, cursor),
            _ => quarantine::put_back(id, cursor),
        }
    }
    is_complete
}

/// Takes back the objects of a sheaf that the caller owns, whose grace period is over.
pub(crate) fn reclaimed(id: CacheId, cursor: Cursor) {
    match id.shape().checking {
        Checking::Plain => return flush::put_away(id, cursor),
        Checking::Hardened | Checking::Exact => {}
        // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
        Checking::Debug => debug::end_deferral(id, unsafe { cursor.objects() }),
    }
    quarantine::seal_sheaf(id, cursor);
    quarantine::flush_surplus(id);
}

/// [`reclaimed`] for an object without a sheaf.
pub(crate) fn reclaimed_one(id: CacheId, object: usize) {
    match id.shape().checking {
        Checking::Plain => return flush::flush(id, &mut [object]),
        Checking::Hardened | Checking::Exact => {}
        Checking::Debug => debug::end_deferral(id, &[object]),
    }
    quarantine::free(id, object);
}
