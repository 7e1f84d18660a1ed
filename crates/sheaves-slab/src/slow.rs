//! The slow paths, taken when the main sheaf of a slot is empty or full.
//!
//! An allocation tries: the spare sheaf; a ready deferred sheaf of this shard; the depot; a refill
//! from slabs; a ready deferred sheaf of any shard; one object straight from the slabs. A free
//! tries: the spare sheaf if it is empty; a new empty sheaf, for which a spare one with objects
//! goes to the depot or is flushed; the slab. In a slot to which a thread has come from another
//! one, calls for small objects go to the slabs for a while, see `home`.
//!
//! A thread may change slots between any two lines here. That is harmless: a sheaf is in exactly
//! one place, and every move is one exchange of a word whose value names sheaf and fill. A sheaf
//! that a thread has taken out is the thread's own.

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{Cursor, Word, cmp_store, pop_slow, push_slow};
use sheaves_sys::membarrier::Reach;

use crate::checked::samples::{self, sample_if_tagged};
use crate::checked::{debug, incoming};
use crate::moves::slot::{self, ATTEMPTS, take_untagged};
use crate::moves::tags::{self, Roles};
use crate::moves::{flush, home, refill};
use crate::records::bounds;
use crate::records::profile::{self, AllocRequest};
use crate::returning::{shrink, surplus};
use crate::space::cache_id::CacheId;
use crate::space::checking::Checking;
use crate::space::chunk;
use crate::{deferred, hardened};

/// Allocates an object when the fast path found none; 0 when memory is out.
#[cold]
#[inline(never)]
pub(crate) fn alloc_slow(id: CacheId, request: &AllocRequest) -> usize {
    let mut object = alloc(id, request);
    if object == 0 && shrink::release_before_failing() {
        object = alloc(id, request);
    }
    chunk::do_due_after_alloc();
    object
}

#[inline]
fn alloc(id: CacheId, request: &AllocRequest) -> usize {
    let object = match id.shape().checking {
        Checking::Plain => return alloc_plain(id, request),
        Checking::Hardened | Checking::Exact => hardened::alloc(id, request),
        Checking::Debug => debug::alloc(id, request),
    };
    // The heap knows what was requested of a size class.
    if object != 0 && !id.is_class() {
        bounds::close(id, object, id.shape().size);
    }
    object
}

#[inline]
fn alloc_plain(id: CacheId, request: &AllocRequest) -> usize {
    let roles = Roles::of(id);
    if profile::is_used()
        && let Some(object) = pop_entry(id, roles.source, request)
    {
        return object;
    }
    if home::goes_to_slabs(id) {
        match take_one(id, request) {
            0 => {}
            object => return object,
        }
    }
    for _ in 0..ATTEMPTS {
        if let Some(object) = pop_entry(id, roles.source, request) {
            return object;
        }
        id.descriptor().depot.note_exchange(id.shape());
        // Without a slot a whole sheaf would be refilled for each object.
        if !attach() {
            break;
        }
        let ready = sheaf_with_objects(id, roles);
        let Some(cursor) = ready.or_else(|| refill::refilled_sheaf(id)) else { break };
        install(id, roles.source, cursor, Cursor::is_empty);
    }
    take_one(id, request)
}

/// Pops an object. If `pop` leaves the last object of the current slot's sheaf alone, perhaps
/// because it is tagged, the allocation becomes a sample.
#[inline]
fn pop_entry(id: CacheId, source: Word, request: &AllocRequest) -> Option<usize> {
    let put_back = |cursor| {
        place(id, source, cursor, |other| !other.is_sheaf());
    };
    pop_slow(source).or_else(|| samples::pop_tagged(id, source, request, put_back))
}

/// Frees an object when the fast path found no room.
#[cold]
#[inline(never)]
pub(crate) fn free_slow(id: CacheId, object: usize) {
    match id.shape().checking {
        Checking::Plain => match tags::freed(object) {
            Some(object) => push(id, object),
            None => flush::flush(id, &mut [object]),
        },
        Checking::Hardened | Checking::Exact => return hardened::free(id, object),
        Checking::Debug => debug::free(id, object),
    }
    surplus::after_free();
}

/// Defers an object when the fast path found no room.
#[cold]
#[inline(never)]
pub(crate) fn free_rcu_slow(id: CacheId, object: usize) {
    match id.shape().checking {
        Checking::Plain => deferred::push(id, object),
        Checking::Debug if !debug::defer(id, object) => {}
        _ => deferred::push_open(id, object),
    }
}

/// Pushes an object that the caller owns.
#[inline]
pub(crate) fn push(id: CacheId, object: usize) {
    let (shape, roles) = (id.shape(), Roles::of(id));
    let mut entry = [object];
    if roles.draws_frees() {
        tags::tag(shape, &mut entry);
        // SAFETY: as below. Each free of such a cache comes here, so that is no exchange.
        if unsafe { push_slow(roles.sink, entry[0]) } {
            return;
        }
    }
    if home::goes_to_slabs(id) {
        return home::send(id, object);
    }
    for _ in 0..ATTEMPTS {
        // SAFETY: the caller of `free` owns the object; what is pushed is not used again. A tagged
        // entry is pushed onto a source only.
        if unsafe { push_slow(roles.sink, entry[0]) } {
            return;
        }
        id.descriptor().depot.note_exchange(shape);
        if !attach() {
            break;
        }
        let Some(cursor) = empty_sheaf(id, roles) else { break };
        install(id, roles.sink, cursor, Cursor::is_full);
    }
    flush::flush(id, &mut [object]);
}

/// The second sheaf if it has objects, or one whose objects were deferred, or one from the depot.
fn sheaf_with_objects(id: CacheId, roles: Roles) -> Option<Cursor> {
    let is_ready = |cursor| roles.is_ready(cursor);
    let second = roles.second.and_then(|word| take_untagged(id, word, is_ready));
    let ready = second.or_else(|| deferred::take_ready(id));
    let cursor = ready.or_else(|| home::keep_own(id, id.take_full()?))?;
    Some(id.descriptor().depot.enlarge(cursor))
}

/// An empty sheaf: the spare one, or a new one. Before a new one is taken, a spare sheaf with
/// objects is put away: its word is for the main sheaf, which was used more recently. Unless it is
/// the one from which objects are allocated.
fn empty_sheaf(id: CacheId, roles: Roles) -> Option<Cursor> {
    let is_source = roles.source == id.spare();
    match take_untagged(id, id.spare(), |cursor| !is_source || cursor.is_empty()) {
        Some(spare) if spare.is_empty() => return Some(spare),
        Some(spare) => flush::put_away(id, spare),
        None => {}
    }
    id.descriptor().depot.empty_sheaf().map(|empty| tags::sized(id, empty))
}

/// Installs a sheaf that the caller owns in a word of the current slot, if `replaceable` accepts
/// the present one. Otherwise another thread has changed the word, or the calling one has no slot;
/// then the sheaf is retired.
///
/// None of its entries is tagged; some are when it is in the spare word.
pub(crate) fn install(
    id: CacheId,
    word: Word,
    cursor: Cursor,
    replaceable: impl Fn(Cursor) -> bool,
) {
    if word == id.spare() {
        // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
        tags::tag(id.shape(), unsafe { cursor.objects() });
    }
    place(id, word, cursor, replaceable);
}

/// [`install`] for a sheaf whose entries have their tags.
fn place(id: CacheId, word: Word, cursor: Cursor, replaceable: impl Fn(Cursor) -> bool) {
    let rest = match slot::exchange(word, cursor, replaceable) {
        Ok(before) if !before.is_sheaf() => before,
        Ok(before) if before.is_empty() => match id.descriptor().depot.refit(before) {
            empty if empty.is_sheaf() => tags::sized(id, empty),
            none => none,
        },
        Ok(rest) | Err(rest) => rest,
    };
    let is_in_main = retire(id, rest) || word == id.main();
    // A profile that was turned on meanwhile has drained the slots either after the store, or
    // before: then this load finds it, by the fence of the drain. Frees go past the draw while
    // there is a sheaf in the main word.
    if is_in_main && Roles::of(id).draws_frees() {
        let _is_complete = incoming::flush_slots(id, Reach::Quiet);
    }
}

/// Finds a place for a sheaf that the caller owns, and that was in a word or was to be: the word of
/// the second sheaf of the current slot if it is vacant, the depot, the pool, or its objects'
/// slabs. True if it is in the main word.
#[inline]
fn retire(id: CacheId, cursor: Cursor) -> bool {
    if !cursor.is_sheaf() {
        return false;
    }
    slot::untag(id, cursor);
    // SAFETY: VACANT is not the bootstrap cursor; the caller owns the sheaf.
    let store = |word| unsafe { cmp_store(word, Cursor::VACANT, cursor) };
    let second = Roles::of(id).second;
    let is_stored = second.is_some_and(store);
    if !is_stored {
        flush::put_away(id, cursor);
    }
    is_stored && second == Some(id.main())
}

/// An object straight from the slabs, for a thread without a slot or without memory for a sheaf.
fn take_one(id: CacheId, request: &AllocRequest) -> usize {
    let mut one = [0];
    if refill::refill(id, &mut one) == 1 {
        tags::tag(id.shape(), &mut one);
        return sample_if_tagged(id, one[0], request);
    }
    // Memory is out, but the depot may have objects, or the deferred queue of another slot.
    let Some(cursor) = id.take_full().or_else(|| deferred::take_any_ready(id)) else { return 0 };
    // SAFETY: a sheaf with objects that we own.
    let object = unsafe { cursor.last() };
    flush::flush_sheaf(id, cursor.down(1));
    object
}
