//! Entries: a key and a value in memory of their own, and how they are freed.
//!
//! An entry without a destructor is freed like any deferred object: pushed onto a sheaf of the
//! slot. An entry with a destructor waits in the map itself ([`Limbo`]). Its destructor must not
//! run after the end of the map's lifetime, since the data that the value borrows may be gone.

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

    /// Allocates an entry.
    ///
    /// Aborts the program when memory is out, as `Box` does.
    #[inline]
    pub(super) fn new(key: K, value: V) -> *mut Entry<K, V> {
        let block = sheaves_heap::alloc_layout(Self::LAYOUT);
        if block.is_null() {
            alloc::alloc::handle_alloc_error(Self::LAYOUT);
        }
        let entry = if Self::HAS_DESTRUCTOR {
            block.wrapping_add(offset_of!(Linked<K, V>, entry)).cast()
        } else {
            block.cast::<Entry<K, V>>()
        };
        // SAFETY: by the layout there is room for it, and the memory is ours.
        unsafe { entry.write(Entry { key, value }) };
        entry
    }

    /// Drops and frees an entry now.
    ///
    /// # Safety
    /// From [`Entry::new`]; nothing else uses it.
    pub(super) unsafe fn end(entry: *mut Entry<K, V>) {
        // SAFETY: the entry is ours; its memory is freed even if its destructor unwinds.
        let _memory = Memory(unsafe { Self::block(entry) }, Self::LAYOUT);
        // SAFETY: the caller's contract.
        unsafe { entry.drop_in_place() };
    }

    /// The start of an entry's memory.
    ///
    /// # Safety
    /// From [`Entry::new`].
    #[inline(always)]
    unsafe fn block(entry: *mut Entry<K, V>) -> *mut u8 {
        if Self::HAS_DESTRUCTOR {
            // SAFETY: the entry is inside a `Linked`.
            unsafe { entry.cast::<u8>().sub(offset_of!(Linked<K, V>, entry)) }
        } else {
            entry.cast()
        }
    }
}

/// Memory that is freed when this is dropped.
struct Memory(*mut u8, Layout);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: from `Entry::new`, with this layout; nothing else uses it.
        unsafe { sheaves_heap::dealloc_layout(self.0, self.1) };
    }
}

/// Number of lists of one map; an entry's hash selects one.
const SHARDS: usize = 4;
/// Number of entries that share a cookie.
const BATCH: usize = 32;

/// Entries with destructors that readers may still use.
///
/// Each shard has an open list without a cookie, to which entries are added, and a sealed list that
/// waits for its cookie and gets no more. A thread that adds an entry checks whether the cookie has
/// passed. If so it runs the destructors, after it has released the lock.
///
/// # Invariants
/// The lists' entries are in no table any more, since before the list's cookie was made.
pub(super) struct Limbo<K, V> {
    shards: [Shard<K, V>; SHARDS],
}

/// A shard, on a cache line of its own.
#[repr(align(64))]
struct Shard<K, V> {
    lists: Lock<Lists<K, V>>,
}

impl<K, V> Shard<K, V> {
    /// Takes the lock of the lists. No fork handler takes it: in a child another thread may have
    /// been changing the lists. Then their entries leak.
    fn lock(&self) -> Held<'_, Lists<K, V>> {
        let mut lists = self.lists.lock();
        if lists.has_owner_died() {
            lists.forget();
        }
        lists
    }
}

struct Lists<K, V> {
    open: *mut Linked<K, V>,
    count: usize,
    sealed: *mut Linked<K, V>,
    /// The cookie of the sealed list.
    cookie: Option<Cookie>,
}

// SAFETY: owners of entries, which are dropped wherever the list is.
unsafe impl<K: Send, V: Send> Send for Lists<K, V> {}

impl<K, V> Lists<K, V> {
    fn forget(&mut self) {
        (self.open, self.sealed) = (null_mut(), null_mut());
        (self.count, self.cookie) = (0, None);
    }

    /// Returns entries whose cookie has passed, for the caller to drop, and a cookie that the
    /// caller must start.
    fn turn(&mut self, at_least: usize) -> (Chain<K, V>, Option<Cookie>) {
        let mut ready = Chain(null_mut());
        if !self.sealed.is_null() {
            if !self.cookie.is_some_and(Cookie::has_passed) {
                let is_time = self.count.is_multiple_of(at_least);
                return (ready, self.cookie.filter(|_| is_time));
            }
            ready = Chain(core::mem::replace(&mut self.sealed, null_mut()));
        }
        if self.count < at_least {
            return (ready, None);
        }
        self.sealed = core::mem::replace(&mut self.open, null_mut());
        self.count = 0;
        // After the last entry was added. INVARIANT: nothing is added to it any more.
        self.cookie = Some(Cookie::get());
        (ready, self.cookie)
    }
}

impl<K, V> Limbo<K, V> {
    pub(super) const fn new() -> Limbo<K, V> {
        let shards = [const {
            let (open, sealed) = (null_mut(), null_mut());
            Shard { lists: Lock::new(Lists { open, count: 0, sealed, cookie: None }) }
        }; SHARDS];
        Limbo { shards }
    }

    /// Frees an entry after a grace period.
    ///
    /// # Safety
    /// From [`Entry::new`]; in no table any more, and only readers use it.
    #[inline]
    pub(super) unsafe fn retire(&self, hash: u64, entry: *mut Entry<K, V>) {
        // SAFETY: from `Entry::new`.
        let block = unsafe { Entry::block(entry) };
        if Entry::<K, V>::HAS_DESTRUCTOR {
            // SAFETY: as above: the entry is inside a `Linked`.
            unsafe { self.add(hash, block.cast()) };
        } else {
            // SAFETY: allocated with this layout; only readers use it.
            unsafe { sheaves_heap::free_rcu_layout(block, Entry::<K, V>::LAYOUT) };
        }
    }

    /// # Safety
    /// As [`Limbo::retire`].
    unsafe fn add(&self, hash: u64, linked: *mut Linked<K, V>) {
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        let mut lists = shard.lock();
        // SAFETY: the memory is that of a `Linked`.
        let next = unsafe { &raw mut (*linked).next };
        // SAFETY: ours: readers access the entry only.
        unsafe { next.write(lists.open) };
        lists.open = linked;
        lists.count += 1;
        let (ready, cookie) = lists.turn(BATCH);
        drop(lists);
        if let Some(cookie) = cookie {
            cookie.start();
        }
        drop(ready);
    }

    /// Frees the entries whose cookies have passed; true if none waits any more.
    pub(super) fn reclaim(&self) -> bool {
        let mut is_empty = true;
        for shard in &self.shards {
            for _ in 0..2 {
                let (ready, cookie) = shard.lock().turn(1);
                if let Some(cookie) = cookie {
                    cookie.start();
                }
                drop(ready);
            }
            let lists = shard.lock();
            is_empty &= lists.open.is_null() && lists.sealed.is_null();
        }
        is_empty
    }
}

impl<K, V> Drop for Limbo<K, V> {
    fn drop(&mut self) {
        // Lists that another thread has left half changed must not be dropped.
        self.shards.iter().for_each(|shard| drop(shard.lock()));
    }
}

impl<K, V> Drop for Lists<K, V> {
    fn drop(&mut self) {
        // The second value is dropped even if the first one's destructors unwind.
        let _open = Chain(core::mem::replace(&mut self.open, null_mut()));
        let _sealed = Chain(core::mem::replace(&mut self.sealed, null_mut()));
    }
}

/// Entries that nothing uses any more; freed when dropped.
pub(super) struct Chain<K, V>(*mut Linked<K, V>);

impl<K, V> Chain<K, V> {
    pub(super) fn new() -> Chain<K, V> {
        Chain(null_mut())
    }

    /// Adds an entry; one without a destructor is freed at once.
    ///
    /// # Safety
    /// From [`Entry::new`]; nothing else uses it.
    pub(super) unsafe fn add(&mut self, entry: *mut Entry<K, V>) {
        if !Entry::<K, V>::HAS_DESTRUCTOR {
            // SAFETY: the same contract.
            return unsafe { Entry::end(entry) };
        }
        // SAFETY: from `Entry::new`: the entry is inside a `Linked`.
        let linked = unsafe { Entry::block(entry) }.cast::<Linked<K, V>>();
        // SAFETY: as above.
        let next = unsafe { &raw mut (*linked).next };
        // SAFETY: ours.
        unsafe { next.write(self.0) };
        self.0 = linked;
    }
}

impl<K, V> Drop for Chain<K, V> {
    fn drop(&mut self) {
        /// Frees the remaining entries if a destructor unwinds.
        struct Rest<'a, K, V>(&'a mut Chain<K, V>);

        impl<K, V> Rest<'_, K, V> {
            fn end(&mut self) {
                while !self.0.0.is_null() {
                    let linked = self.0.0;
                    // SAFETY: an entry of the chain, which is ours. Removed first, so that an
                    // unwind finds only the others.
                    self.0.0 = unsafe { (*linked).next };
                    // SAFETY: as above.
                    let entry = unsafe { &raw mut (*linked).entry };
                    // SAFETY: from `Entry::new`, and nothing else uses it.
                    unsafe { Entry::end(entry) };
                }
            }
        }

        impl<K, V> Drop for Rest<'_, K, V> {
            fn drop(&mut self) {
                self.end();
            }
        }

        Rest(self).end();
    }
}

#[cfg(test)]
#[path = "../../tests/unit/map_entry.rs"]
mod tests;
