//! Entries: a key and a value in memory of their own, and how they are freed.
//!
//! An entry without a destructor is freed like any deferred object: pushed onto a sheaf of the
//! slot. One with a destructor waits in the map itself ([`Limbo`]): the destructor must not run
//! after the end of the map, since what the value borrows may be gone.

use core::alloc::Layout;
use core::mem::{needs_drop, offset_of};
use core::ptr::null_mut;

use sheaves_rcu::Cookie;
use sheaves_sys::lock::{Held, Lock};

/// The target of a pointer in a bucket.
#[derive(Debug)]
pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

/// An entry with a destructor, which can wait in a list.
struct Linked<K, V> {
    next: *mut Linked<K, V>,
    entry: Entry<K, V>,
}

impl<K, V> Entry<K, V> {
    const HAS_DESTRUCTOR: bool = needs_drop::<Entry<K, V>>();
    const LAYOUT: Layout =
        if Self::HAS_DESTRUCTOR { Layout::new::<Linked<K, V>>() } else { Layout::new::<Self>() };
    /// Bytes before the entry.
    const OFFSET: usize = if Self::HAS_DESTRUCTOR { offset_of!(Linked<K, V>, entry) } else { 0 };

    /// Allocates an entry.
    ///
    /// Aborts the program when memory is out, as `Box` does.
    #[inline]
    pub(super) fn new(key: K, value: V) -> *mut Entry<K, V> {
        let block = sheaves_heap::alloc_layout(Self::LAYOUT);
        if block.is_null() {
            alloc::alloc::handle_alloc_error(Self::LAYOUT);
        }
        let entry = block.wrapping_add(Self::OFFSET).cast::<Entry<K, V>>();
        // SAFETY: by the layout there is room for it, and the memory is ours.
        unsafe { entry.write(Entry { key, value }) };
        entry
    }

    /// Drops and frees an entry now.
    ///
    /// # Safety
    /// From [`Entry::new`]; nothing else uses it.
    pub(super) unsafe fn end(entry: *mut Entry<K, V>) {
        // SAFETY: the caller's contract.
        let block = unsafe { Self::block(entry) };
        // SAFETY: the same contract. Moved out, so that the memory is freed even if a destructor
        // unwinds.
        let value = unsafe { entry.read() };
        // SAFETY: from `Entry::new`, with this layout, and not used any more.
        unsafe { sheaves_heap::dealloc_layout(block, Self::LAYOUT) };
        drop(value);
    }

    /// The start of an entry's memory.
    ///
    /// # Safety
    /// From [`Entry::new`].
    #[inline(always)]
    unsafe fn block(entry: *mut Entry<K, V>) -> *mut u8 {
        // SAFETY: by the contract the block begins that many bytes before it.
        unsafe { entry.cast::<u8>().sub(Self::OFFSET) }
    }
}

/// Number of lists of one map; an entry's hash selects one.
const SHARDS: usize = 4;
/// Number of entries that share a cookie.
const BATCH: usize = 32;

/// Entries with destructors that readers may still use.
///
/// Each shard has two lists: an open one, to which entries are added, and a sealed one, which waits
/// for its cookie. A thread that adds an entry and finds that the cookie has passed runs the
/// destructors, after it has released the lock.
///
/// # Invariants
/// The entries of a list have left all tables before the list's cookie is made.
pub(super) struct Limbo<K, V> {
    shards: [Shard<K, V>; SHARDS],
}

/// A shard, on a cache line of its own.
#[repr(align(64))]
struct Shard<K, V>(Lock<Lists<K, V>>);

impl<K, V> Shard<K, V> {
    /// Takes the lock of the lists. No fork handler takes it: in a child another thread may have
    /// been changing the lists. Then their entries leak.
    fn lock(&self) -> Held<'_, Lists<K, V>> {
        let mut lists = self.0.lock();
        if lists.has_owner_died() {
            core::mem::forget(core::mem::replace(&mut *lists, Lists::new()));
        }
        lists
    }
}

struct Lists<K, V> {
    open: Unlinked<K, V>,
    count: usize,
    sealed: Unlinked<K, V>,
    /// The cookie of the sealed list.
    cookie: Option<Cookie>,
}

impl<K, V> Lists<K, V> {
    const fn new() -> Lists<K, V> {
        Lists { open: Unlinked::new(), count: 0, sealed: Unlinked::new(), cookie: None }
    }

    /// Returns entries whose cookie has passed, for the caller to drop, and a cookie that the
    /// caller must start.
    fn turn(&mut self, at_least: usize) -> (Unlinked<K, V>, Option<Cookie>) {
        let mut ready = Unlinked::new();
        if !self.sealed.is_empty() {
            if !self.cookie.is_some_and(Cookie::has_passed) {
                let is_time = self.count.is_multiple_of(at_least);
                return (ready, self.cookie.filter(|_| is_time));
            }
            ready = self.sealed.take();
        }
        if self.count < at_least {
            return (ready, None);
        }
        self.sealed = self.open.take();
        self.count = 0;
        // After the last entry was added. INVARIANT: nothing is added to it any more.
        self.cookie = Some(Cookie::get());
        (ready, self.cookie)
    }
}

impl<K, V> Limbo<K, V> {
    pub(super) const fn new() -> Limbo<K, V> {
        Limbo { shards: [const { Shard(Lock::new(Lists::new())) }; SHARDS] }
    }

    /// Frees an entry after a grace period.
    ///
    /// # Safety
    /// From [`Entry::new`]; in no table any more, and only readers use it.
    #[inline]
    pub(super) unsafe fn retire(&self, hash: u64, entry: *mut Entry<K, V>) {
        if !Entry::<K, V>::HAS_DESTRUCTOR {
            // SAFETY: from `Entry::new`.
            let block = unsafe { Entry::block(entry) };
            // SAFETY: allocated with this layout; only readers use it.
            return unsafe { sheaves_heap::free_rcu_layout(block, Entry::<K, V>::LAYOUT) };
        }
        let mut lists = self.shards[(hash >> 32) as usize % SHARDS].lock();
        // SAFETY: in no table any more; the list is dropped after a grace period.
        unsafe { lists.open.add(entry) };
        lists.count += 1;
        turn(lists, BATCH);
    }

    /// Frees the entries whose cookies have passed; true if none waits any more.
    pub(super) fn reclaim(&self) -> bool {
        let mut is_empty = true;
        for shard in &self.shards {
            for _ in 0..2 {
                turn(shard.lock(), 1);
            }
            let lists = shard.lock();
            is_empty &= lists.open.is_empty() && lists.sealed.is_empty();
        }
        is_empty
    }
}

/// Unlocks the lists, and does the work of [`Lists::turn`].
fn turn<K, V>(mut lists: Held<'_, Lists<K, V>>, at_least: usize) {
    let (_ready, cookie) = lists.turn(at_least);
    drop(lists);
    if let Some(cookie) = cookie {
        cookie.start();
    }
}

impl<K, V> Drop for Limbo<K, V> {
    fn drop(&mut self) {
        // Lists that another thread has left half changed must not be dropped.
        self.shards.iter().for_each(|shard| drop(shard.lock()));
    }
}

/// A list of entries that are in no table any more; they are freed when it is dropped.
pub(super) struct Unlinked<K, V>(*mut Linked<K, V>);

// SAFETY: the owner of its entries, which are dropped wherever the list is.
unsafe impl<K: Send, V: Send> Send for Unlinked<K, V> {}

impl<K, V> Unlinked<K, V> {
    pub(super) const fn new() -> Unlinked<K, V> {
        Unlinked(null_mut())
    }

    fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    fn take(&mut self) -> Unlinked<K, V> {
        core::mem::replace(self, Unlinked::new())
    }

    /// Adds an entry; one without a destructor is freed at once.
    ///
    /// # Safety
    /// From [`Entry::new`]. Nothing uses it when the list is dropped; until then readers may, if it
    /// has a destructor.
    pub(super) unsafe fn add(&mut self, entry: *mut Entry<K, V>) {
        if !Entry::<K, V>::HAS_DESTRUCTOR {
            // SAFETY: the same contract.
            return unsafe { Entry::end(entry) };
        }
        // SAFETY: from `Entry::new`: the entry is inside a `Linked`.
        let linked = unsafe { Entry::block(entry) }.cast::<Linked<K, V>>();
        // SAFETY: as above.
        let next = unsafe { &raw mut (*linked).next };
        // SAFETY: ours: readers access the entry only.
        unsafe { next.write(self.0) };
        self.0 = linked;
    }
}

impl<K, V> Drop for Unlinked<K, V> {
    fn drop(&mut self) {
        while !self.0.is_null() {
            let linked = self.0;
            // If a destructor unwinds, this frees the others.
            // SAFETY: an entry of the list, which is ours.
            let mut others = Unlinked(unsafe { (*linked).next });
            // SAFETY: as above.
            let entry = unsafe { &raw mut (*linked).entry };
            // SAFETY: from `Entry::new`, and nothing else uses it.
            unsafe { Entry::end(entry) };
            self.0 = core::mem::replace(&mut others.0, null_mut());
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/map_entry.rs"]
mod tests;
