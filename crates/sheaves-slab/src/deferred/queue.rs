//! Sealed sheaves that wait for their cookies, oldest first.
//!
//! A queue belongs to a cache and a shard of its slots. Its lock is held for a handful of
//! instructions, once for each sheaf. A sealed sheaf carries all that is known of it below its
//! sentinel, so that sealing needs no memory:
//!
//! | entry | holds |
//! |---|---|
//! | 0 | the index of the sentinel, and the number of the next sheaf |
//! | 1 | the cookie |
//! | 2 | where in the sheaf the cursor stood, in bytes |
//! | [`SENTINEL_MIN`] or higher | the sentinel |

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_percpu::sheaf::{ENTRIES, SHEAF_BYTES, is_full};
use sheaves_rcu::{Cookie, defer};
use sheaves_sys::lock::Lock;

use super::emergency;
use crate::descriptor::CacheId;
use crate::pool::Sheaf;

const SENTINEL_MIN: usize = 3;
/// The most objects of a sheaf that can be sealed.
const OBJECTS_MAX: usize = ENTRIES - 1 - SENTINEL_MIN;

/// After so many sealed sheaves a grace period is started. A membarrier costs from a third of a
/// microsecond, when no other thread runs, to ten: so many make it a fraction of a nanosecond
/// for each object, few enough that what is waiting stays in a processor's second-level cache.
const START_SHEAVES: u32 = 16;
/// A queue of more sheaves than this gives up ready ones to the depot.
const LONG_SHEAVES: u32 = 4 * START_SHEAVES;

/// There is no memory for another sheaf.
#[derive(Debug)]
pub(super) struct NoSheaf;

/// What is known of a sheaf that was sealed just now.
#[derive(Debug)]
pub(super) struct SealedSheaf {
    pub(super) cookie: Cookie,
    pub(super) objects: usize,
    /// It is time for a grace period.
    pub(super) is_time: bool,
    /// The queue is long.
    pub(super) is_long: bool,
}

/// What the lock guards.
#[derive(Debug)]
struct Sealed {
    /// Number of the oldest and of the youngest sheaf, 0 for none.
    first: u32,
    last: u32,
    /// Sheaves since a grace period was last started.
    unstarted: u32,
    /// Cursor of a sheaf that is not sealed yet, 0 for none.
    open: usize,
}

/// A shard's queue, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Queue {
    sealed: Lock<Sealed>,
    /// Sheaves in the queue; changes under the lock.
    sheaves: AtomicU32,
    /// Objects in the queue and in the open sheaf; changes under the lock.
    objects: AtomicU32,
}

/// An empty sheaf to defer objects with: its cursor.
pub(super) fn empty_sheaf(id: CacheId) -> Option<usize> {
    emergency::take_empty(id).map(|sheaf| format(id, sheaf))
}

fn format(id: CacheId, sheaf: Sheaf) -> usize {
    sheaf.format(id.shape().sheaf_objects.min(OBJECTS_MAX))
}

/// Puts an object onto a sheaf that the caller owns and that is not full: the new cursor.
pub(super) fn add(cursor: usize, object: usize) -> usize {
    debug_assert!(!is_full(cursor));
    let entry = core::ptr::with_exposed_provenance_mut::<usize>(cursor + 8);
    // SAFETY: the sheaf is ours and not full, so the entry above the cursor is in it.
    unsafe { entry.write(object) };
    cursor + 8
}

/// How many objects a sheaf holds that the caller owns.
fn fill(cursor: usize) -> usize {
    cursor % SHEAF_BYTES / 8 - Sheaf::of_cursor(cursor).sentinel()
}

impl Queue {
    pub(crate) const fn new() -> Queue {
        let sealed = Sealed { first: 0, last: 0, unstarted: 0, open: 0 };
        Queue { sealed: Lock::new(sealed), sheaves: AtomicU32::new(0), objects: AtomicU32::new(0) }
    }

    /// Seals a sheaf that the caller owns. `None` when it is empty; then it is in the pool.
    pub(super) fn seal(&self, id: CacheId, cursor: usize) -> Option<SealedSheaf> {
        if fill(cursor) == 0 {
            crate::pool::put_empty(Sheaf::of_cursor(cursor));
            return None;
        }
        debug_assert!(Sheaf::of_cursor(cursor).sentinel() >= SENTINEL_MIN, "{id:?}");
        let mut sealed = self.sealed.lock();
        self.count_objects(fill(cursor) as u32);
        Some(self.append(&mut sealed, cursor))
    }

    /// Puts an object into the open sheaf, which is sealed when it is full.
    pub(super) fn push_open(
        &self,
        id: CacheId,
        object: usize,
    ) -> Result<Option<SealedSheaf>, NoSheaf> {
        let mut sealed = self.sealed.lock();
        if sealed.open == 0 {
            sealed.open = empty_sheaf(id).ok_or(NoSheaf)?;
        }
        sealed.open = add(sealed.open, object);
        self.count_objects(1);
        if !is_full(sealed.open) {
            return Ok(None);
        }
        let cursor = core::mem::take(&mut sealed.open);
        Ok(Some(self.append(&mut sealed, cursor)))
    }

    /// Seals the open sheaf, if there is one.
    pub(super) fn seal_open(&self) -> Option<SealedSheaf> {
        let mut sealed = self.sealed.lock();
        if sealed.open == 0 {
            return None;
        }
        let cursor = core::mem::take(&mut sealed.open);
        Some(self.append(&mut sealed, cursor))
    }

    /// Stamps a sheaf and puts it at the end. Cookies are taken under the lock, so they ascend.
    fn append(&self, sealed: &mut Sealed, cursor: usize) -> SealedSheaf {
        let sheaf = Sheaf::of_cursor(cursor);
        // After the last object came: whoever reads one of them now is older than the cookie.
        let cookie = Cookie::get();
        // SAFETY: the caller owns the sheaf, and this is the only reference to these entries.
        let notes = unsafe { sheaf.entries(1, 2) };
        notes[0] = cookie.to_bits() as usize;
        notes[1] = cursor - sheaf.cursor(0);
        sheaf.set_link(0);
        match Sheaf::existing(sealed.last) {
            Some(last) => last.set_link(sheaf.number()),
            None => sealed.first = sheaf.number(),
        }
        sealed.last = sheaf.number();
        sealed.unstarted += 1;
        let is_time = sealed.unstarted >= START_SHEAVES;
        if is_time {
            sealed.unstarted = 0;
        }
        // Relaxed: changes under the lock.
        let sheaves = self.sheaves.fetch_add(1, Ordering::Relaxed) + 1;
        SealedSheaf { cookie, objects: fill(cursor), is_time, is_long: sheaves > LONG_SHEAVES }
    }

    /// Takes the oldest sheaf if its cookie has passed: its cursor.
    pub(super) fn take_ready(&self, id: CacheId) -> Option<usize> {
        // Relaxed: a hint that spares the lock.
        if self.sheaves.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut sealed = self.sealed.lock();
        let sheaf = Sheaf::existing(sealed.first)?;
        // SAFETY: sheaves in the queue belong to whoever has the lock; the only reference.
        let notes = unsafe { sheaf.entries(1, 2) };
        if !Cookie::from_bits(notes[0] as u64).has_passed() {
            return None;
        }
        let cursor = sheaf.cursor(0) + notes[1];
        // From now on these entries are the pool's, see `Sheaf::count_use`.
        notes.fill(0);
        sealed.first = sheaf.link();
        if sealed.first == 0 {
            sealed.last = 0;
        }
        let objects = fill(cursor);
        // Relaxed, both: change under the lock.
        self.sheaves.fetch_sub(1, Ordering::Relaxed);
        self.objects.fetch_sub(objects as u32, Ordering::Relaxed);
        drop(sealed);
        defer::note_reclaimed(objects, objects * id.shape().stride);
        Some(cursor)
    }

    fn count_objects(&self, objects: u32) {
        // Relaxed: changes under the lock.
        self.objects.fetch_add(objects, Ordering::Relaxed);
    }

    /// Objects in the queue and in the open sheaf. For statistics.
    pub(super) fn objects(&self) -> usize {
        // Relaxed: statistics.
        self.objects.load(Ordering::Relaxed) as usize
    }

    /// Takes the lock for a fork.
    pub(crate) fn lock_for_fork(&self) {
        self.sealed.acquire();
    }

    /// Gives it back.
    ///
    /// # Safety
    /// Taken by [`Queue::lock_for_fork`] in the thread that forked.
    pub(crate) unsafe fn unlock_after_fork(&self) {
        // SAFETY: the same contract.
        unsafe { self.sealed.release() };
    }
}
