//! Makes an allocation a sample: exchanges the object for one of a watched slab, and records it.

use sheaves_percpu::internal::{Cursor, Word};

use crate::checked::quarantine;
use crate::moves::refill;
use crate::moves::slot::take_sheaf;
use crate::moves::tags::{self, TAG};
use crate::records::profile::{self, AllocRequest};
use crate::records::trap;
use crate::space::cache_id::CacheId;
use crate::space::granule::Granule;
use crate::space::slab;

/// The object that is allocated for an entry of a sheaf, or for one that [`tags::tag`] has made.
#[inline]
pub(crate) fn sample_if_tagged(id: CacheId, entry: usize, request: &AllocRequest) -> usize {
    let object = entry & !TAG;
    if object == entry { object } else { sample(id, object, request) }
}

/// Takes the last object of the sheaf in a word of the current slot, which `pop` has left alone,
/// perhaps because it is tagged. Then the allocation becomes a sample. `put_back` gets the rest of
/// the sheaf, whose entries keep their tags.
#[inline(never)]
pub(crate) fn pop_tagged(
    id: CacheId,
    word: Word,
    request: &AllocRequest,
    put_back: impl Fn(Cursor),
) -> Option<usize> {
    if !profile::is_used() {
        return None;
    }
    let cursor = take_sheaf(word, |cursor| !cursor.is_empty())?;
    // Now that the sheaf is ours, this is certain.
    if cursor.is_empty() {
        put_back(cursor);
        return None;
    }
    // SAFETY: the sheaf is ours, and not empty.
    let entry = unsafe { cursor.last() };
    put_back(cursor.down(1));
    Some(sample_if_tagged(id, entry, request))
}

/// Makes the allocation of an object, which the caller owns, a sample if profiling is on, and
/// perhaps a trap. Returns the object that is allocated: this one, one of a watched slab in
/// its place, or a trap.
#[cold]
fn sample(id: CacheId, object: usize, request: &AllocRequest) -> usize {
    let has_size = request.bytes != 0 && !tags::has_unnoted_frees(id);
    let bytes = if has_size { request.bytes } else { id.shape().size };
    let trap = trap::alloc(id, object, bytes, request);
    if profile::rate() == 0 {
        return trap.unwrap_or(object);
    }
    let Some(sample) = trap.or_else(|| watched_in_place_of(id, object)) else { return object };
    profile::open(id, sample, request);
    sample
}

/// An object of a watched slab in place of another; `None`, with nothing changed, when memory is
/// out.
fn watched_in_place_of(id: CacheId, object: usize) -> Option<usize> {
    let shape = id.shape();
    let granule = Granule::of(object)?;
    if slab::header(shape.first_granule(granule)).is_watched() {
        return Some(object);
    }
    if shape.is_alone() {
        slab::watch(granule, shape.granules);
        return Some(object);
    }
    let watched = refill::take_watched(id)?;
    quarantine::return_unused(id, &mut [object]);
    Some(watched)
}
