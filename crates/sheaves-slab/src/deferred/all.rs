//! Sealing the sheaves of all slots, and reclaiming what is ready, of all caches that defer.

use sheaves_percpu::internal::{Word, slots};
use sheaves_rcu::Cookie;
use sheaves_rcu::defer::Pending;
use sheaves_sys::lock;
use sheaves_sys::membarrier::Reach;

use super::seal::{
    note, objects, reclaim, reclaim_if_existing, seal, start_and_take_ready, tell_all,
};
use crate::moves::registry::{REGISTRY, if_existing};
use crate::moves::release;
use crate::parts::descriptor::{DEFERRING_WORDS, deferring};
use crate::space::cache_id::CacheId;

/// Called before something of a cache is deferred.
#[inline]
pub(crate) fn note_deferring(id: CacheId) {
    if !id.is_deferring() {
        id.set_deferring(true);
    }
}

/// Seals everything. False when a slot was not drained.
pub(crate) fn seal_all() -> bool {
    (0..DEFERRING_WORDS).fold(true, |is_complete, word| seal_word(word) & is_complete)
}

/// What is deferred, sealed or not.
pub(crate) fn pending() -> Pending {
    let mut pending = Pending::default();
    for id in (0..DEFERRING_WORDS).flat_map(deferring) {
        if_existing(id, |id| {
            tell_all(id);
            let objects = objects(id);
            pending.objects += objects as u64;
            pending.bytes += (objects * id.shape().stride) as u64;
        });
    }
    pending
}

/// Seals the slots' sheaves and the open sheaves of the caches in one word of the set of caches
/// that defer. False when a slot was not drained.
fn seal_word(word: usize) -> bool {
    // Keeps caches from being destroyed meanwhile.
    let _registry = REGISTRY.lock();
    let (ids, words, count) = words_of(word);
    count == 0 || seal_caches(&ids[..count], &words[..count])
}

/// The caches in one word of that set, the words of their slots, and how many they are.
fn words_of(word: usize) -> ([CacheId; 64], [Word; 64], usize) {
    let mut ids = [CacheId::new(0); 64];
    let mut words = [Word::new(0); 64];
    let mut count = 0;
    for id in deferring(word) {
        (ids[count], words[count]) = (id, id.deferred());
        count += 1;
    }
    (ids, words, count)
}

/// Seals the slots' sheaves in the child of a fork: what is deferred next begins a new sheaf, and
/// so arms the bound on its age. Nothing is sealed if a handler has forked while this thread held a
/// lock.
pub(crate) fn seal_in_child() {
    for word in (0..DEFERRING_WORDS).take_while(|_| !lock::is_any_held_here()) {
        let (ids, words, count) = words_of(word);
        for (index, cursor) in slots::take_in_child(&words[..count]) {
            let id = ids[index];
            note(id, cursor);
            // Its grace period is started with that of what is deferred next.
            let _sealed = id.queue_here().seal(id.shape(), cursor);
        }
    }
}

fn seal_caches(ids: &[CacheId], words: &[Word]) -> bool {
    let (taken, is_complete) = slots::take(words, Reach::Interrupts, slots::ALL);
    for (index, cursor) in taken {
        seal(ids[index], cursor);
    }
    for id in ids {
        for queue in id.queues() {
            if let Some(sealed) = queue.seal_open(id.shape()) {
                let _is_told = start_and_take_ready(*id, queue, &sealed);
            }
        }
    }
    is_complete
}

/// Reclaims what is ready of every cache, and releases the ready slabs of type-stable caches.
pub(crate) fn reclaim_all() -> bool {
    (0..DEFERRING_WORDS).flat_map(deferring).fold(false, |mut any, id| {
        any |= reclaim_if_existing(id);
        while if_existing(id, release::release_ready) == Some(true) {
            any = true;
        }
        any
    })
}

/// Waits until no object of the cache is deferred any more. For a cache that no other thread uses.
/// False inside of a read section, where the deferred objects stay.
pub(crate) fn wait_and_reclaim(id: CacheId) -> bool {
    if !id.is_deferring() {
        return true;
    }
    // Not while another thread seals everything: it may hold a sheaf of this cache.
    let registry = REGISTRY.lock();
    seal_caches(&[id], &[id.deferred()]);
    drop(registry);
    let waited = Cookie::get().wait_expedited();
    reclaim(id);
    waited.is_ok()
}
