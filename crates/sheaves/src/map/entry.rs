//! Entries: a key and a value in memory of their own, and how they are freed.
//!
//! | destructor | map | what becomes of an entry that was removed |
//! |---|---|---|
//! | no | any | freed like any deferred object: pushed onto a sheaf of the slot |
//! | yes | of `Send` and `'static` types | dropped and freed by a deferred callback |
//! | yes | scoped | waits in the map ([`Limbo`]), whose calls drop it |
//!
//! In a scoped map the destructor must run neither in another thread nor after the end of the map:
//! the value need not be `Send`, and what it borrows may be gone.

use core::alloc::Layout;
use core::mem::{ManuallyDrop, needs_drop, offset_of};
use core::ptr::null_mut;

use sheaves_rcu::Cookie;
use sheaves_rcu::defer::{Head, call_rcu};
use sheaves_rcu::internal::{pressure, wake_if_pressed};
use sheaves_sys::lock::{Held, Lock};

use super::closures::{DESTRUCTORS, Inside, is_inside};

/// The target of a pointer in a bucket.
pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

/// An entry with a destructor, which can wait in a list, or for a callback. The link is first, so
/// that a head has the address of its block.
#[repr(C)]
struct Linked<K, V> {
    link: Link<K, V>,
    entry: Entry<K, V>,
}

/// Written when the entry is retired.
#[repr(C)]
union Link<K, V> {
    next: *mut Linked<K, V>,
    head: ManuallyDrop<Head>,
}

/// Frees an entry after a grace period, in the library's thread.
pub(super) type Defer<K, V> = unsafe fn(*mut Entry<K, V>);

/// The deferred bytes of one entry in 64 are counted, for all of them.
const SAMPLE: usize = 64;

impl<K, V> Entry<K, V> {
    const HAS_DESTRUCTOR: bool = needs_drop::<Entry<K, V>>();
    pub(super) const LAYOUT: Layout =
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

    /// Frees an entry now, and returns what it holds.
    ///
    /// # Safety
    /// From [`Entry::new`]; nothing else uses it.
    pub(super) unsafe fn take(entry: *mut Entry<K, V>) -> Entry<K, V> {
        let block = Self::block(entry);
        // SAFETY: the caller's contract.
        let value = unsafe { entry.read() };
        // SAFETY: from `Entry::new`, with this layout, and not used any more.
        unsafe { sheaves_heap::dealloc_layout(block, Self::LAYOUT) };
        value
    }

    /// A [`Defer`].
    ///
    /// # Safety
    /// From [`Entry::new`]; in no table any more, and only readers use it.
    pub(super) unsafe fn defer(entry: *mut Entry<K, V>)
    where
        K: Send + 'static,
        V: Send + 'static,
    {
        let head = Self::block(entry).cast::<Head>();
        // SAFETY: by the layout the block begins with room for it; readers access the entry only.
        unsafe { head.write(Head::new()) };
        if let Some(bytes) = Self::sampled_bytes(head) {
            pressure::note_sealed(0, bytes);
            wake_if_pressed();
        }
        // SAFETY: an idle head in memory that is freed in the callback; the types are `Send` and
        // `'static`.
        unsafe { call_rcu(head, Self::end_deferred) };
    }

    /// The callback of [`Entry::defer`].
    unsafe extern "C" fn end_deferred(head: *mut Head) {
        if let Some(bytes) = Self::sampled_bytes(head) {
            pressure::note_reclaimed(0, bytes);
        }
        let entry = head.cast::<u8>().wrapping_add(Self::OFFSET).cast::<Entry<K, V>>();
        // INVARIANT: the entry of this block, whose grace period has passed.
        drop(Owned(entry));
    }

    /// The bytes that an entry counts for beside its head, if it is one of those that are counted.
    /// The same at both ends: its address decides.
    fn sampled_bytes(head: *mut Head) -> Option<usize> {
        let mixed = (head.addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let is_counted = mixed >> 32 & (SAMPLE as u64 - 1) == 0;
        is_counted.then_some(SAMPLE * (Self::LAYOUT.size() - size_of::<Head>()))
    }

    /// The start of the memory of an entry from [`Entry::new`].
    #[inline(always)]
    fn block(entry: *mut Entry<K, V>) -> *mut u8 {
        entry.cast::<u8>().wrapping_sub(Self::OFFSET)
    }
}

/// An entry that nothing else uses.
///
/// # Invariants
/// From [`Entry::new`].
pub(super) struct Owned<K, V>(pub(super) *mut Entry<K, V>);

// SAFETY: the owner of a key and a value.
unsafe impl<K: Send, V: Send> Send for Owned<K, V> {}
// SAFETY: a shared reference gives shared access.
unsafe impl<K: Sync, V: Sync> Sync for Owned<K, V> {}

impl<K, V> Owned<K, V> {
    #[inline]
    pub(super) fn into_raw(self) -> *mut Entry<K, V> {
        ManuallyDrop::new(self).0
    }
}

impl<K, V> Drop for Owned<K, V> {
    fn drop(&mut self) {
        // SAFETY: by the invariant; this is its owner. The memory is freed even if a destructor
        // unwinds.
        drop(unsafe { Entry::take(self.0) });
    }
}

/// Number of lists of one map; an entry's hash selects one.
const SHARDS: usize = 4;
/// Number of entries that share a cookie.
const BATCH: usize = 32;
/// The most entries that one change drops.
const DROPS_MAX: usize = 64;

/// Entries that readers may still use.
///
/// Each shard has two lists: an open one, to which entries are added, and a sealed one. That waits
/// for its cookie. Then threads that add entries run its destructors, some at a time, after they
/// have released the lock. Those that are in one leave the rest of such a list to others, since
/// stacks are limited: at most one for each shard runs in another one.
///
/// # Invariants
/// The entries of a list have left all tables before the list's cookie is made.
pub(super) struct Limbo<K, V> {
    /// If there is one, entries with destructors are deferred by it, and none waits here.
    pub(super) defer: Option<Defer<K, V>>,
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
    /// The cookie of the sealed list, until it has passed.
    cookie: Option<Cookie>,
}

impl<K, V> Lists<K, V> {
    const fn new() -> Lists<K, V> {
        const { assert!(BATCH <= DROPS_MAX) };
        Lists { open: Unlinked::new(), count: 0, sealed: Unlinked::new(), cookie: None }
    }

    /// True if entries are left of a list whose cookie had passed at an earlier turn.
    fn has_left(&self) -> bool {
        self.cookie.is_none() && !self.sealed.is_empty()
    }

    /// Returns entries whose cookie has passed, for the caller to drop, and a cookie that the
    /// caller must start.
    fn turn(&mut self, at_least: usize, most: usize) -> (Unlinked<K, V>, Option<Cookie>) {
        self.cookie = self.cookie.filter(|cookie| !cookie.has_passed());
        if self.cookie.is_some() {
            let is_time = self.count.is_multiple_of(at_least);
            return (Unlinked::new(), self.cookie.filter(|_| is_time));
        }
        let ready = self.sealed.split(most);
        if !self.sealed.is_empty() || self.count < at_least {
            return (ready, None);
        }
        self.sealed = core::mem::replace(&mut self.open, Unlinked::new());
        self.count = 0;
        // After the last entry was added. INVARIANT: nothing is added to it any more.
        self.cookie = Some(Cookie::get());
        (ready, self.cookie)
    }
}

impl<K, V> Limbo<K, V> {
    pub(super) const fn new(defer: Option<Defer<K, V>>) -> Limbo<K, V> {
        Limbo { defer, shards: [const { Shard(Lock::new(Lists::new())) }; SHARDS] }
    }

    /// True if entries of the map may end in any thread, at any time.
    pub(super) fn is_deferred(&self) -> bool {
        !Entry::<K, V>::HAS_DESTRUCTOR || self.defer.is_some()
    }

    /// Frees an entry after a grace period.
    ///
    /// # Safety
    /// From [`Entry::new`]; in no table any more, and only readers use it.
    #[inline]
    pub(super) unsafe fn retire(&self, hash: u64, entry: *mut Entry<K, V>) {
        if !Entry::<K, V>::HAS_DESTRUCTOR {
            let block = Entry::block(entry);
            // SAFETY: from `Entry::new`, so allocated with this layout; only readers use it.
            return unsafe { sheaves_heap::free_rcu_layout(block, Entry::<K, V>::LAYOUT) };
        }
        if let Some(defer) = self.defer {
            // SAFETY: the same contract.
            return unsafe { defer(entry) };
        }
        let mut lists = self.shards[(hash >> 32) as usize % SHARDS].lock();
        // SAFETY: in no table any more; the list is dropped after a grace period.
        unsafe { lists.open.add(entry) };
        lists.count += 1;
        self.turn(lists, BATCH, DROPS_MAX);
    }

    /// Frees the entries whose cookies have passed; true if none waits any more.
    pub(super) fn reclaim(&self) -> bool {
        let mut is_empty = true;
        for shard in &self.shards {
            // Once for each list.
            for _ in 0..2 {
                self.turn(shard.lock(), 1, usize::MAX);
            }
            let lists = shard.lock();
            is_empty &= lists.open.is_empty() && lists.sealed.is_empty();
        }
        is_empty
    }

    /// Unlocks the lists, and does the work of [`Lists::turn`].
    fn turn(&self, mut lists: Held<'_, Lists<K, V>>, at_least: usize, most: usize) {
        let map = core::ptr::from_ref(self).addr() | DESTRUCTORS;
        let is_nested = most == DROPS_MAX && lists.has_left() && is_inside(map);
        let (ready, cookie) = lists.turn(at_least, if is_nested { 0 } else { most });
        drop(lists);
        cookie.into_iter().for_each(Cookie::start);
        let _inside = (!ready.is_empty()).then(|| Inside::begin(map));
        drop(ready);
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

    /// Takes the first entries, this many.
    fn split(&mut self, count: usize) -> Unlinked<K, V> {
        let mut end = &raw mut self.0;
        for _ in 0..count {
            // SAFETY: the list's first pointer, or a link in one of its entries, which are ours.
            let linked = unsafe { *end };
            if linked.is_null() {
                break;
            }
            // SAFETY: an entry of the list.
            end = unsafe { &raw mut (*linked).link.next };
        }
        // SAFETY: as above.
        let others = unsafe { end.replace(null_mut()) };
        Unlinked(core::mem::replace(&mut self.0, others))
    }

    /// Adds an entry; one without a destructor is freed at once.
    ///
    /// # Safety
    /// From [`Entry::new`]. Nothing uses it when the list is dropped; until then readers may, if it
    /// has a destructor.
    pub(super) unsafe fn add(&mut self, entry: *mut Entry<K, V>) {
        if !Entry::<K, V>::HAS_DESTRUCTOR {
            // It is not read: what it borrowed may be gone.
            let block = Entry::block(entry);
            // SAFETY: from `Entry::new`, so allocated with this layout, and not used any more.
            return unsafe { sheaves_heap::dealloc_layout(block, Entry::<K, V>::LAYOUT) };
        }
        let linked = Entry::block(entry).cast::<Linked<K, V>>();
        // SAFETY: from `Entry::new`: the entry is inside a `Linked`.
        let next = unsafe { &raw mut (*linked).link.next };
        // SAFETY: ours: readers access the entry only.
        unsafe { next.write(self.0) };
        self.0 = linked;
    }
}

impl<K, V> Drop for Unlinked<K, V> {
    fn drop(&mut self) {
        while !self.0.is_null() {
            let linked = self.0;
            // SAFETY: an entry of the list, which is ours.
            let next = unsafe { &raw const (*linked).link.next };
            // If a destructor unwinds, this frees the others.
            // SAFETY: as above, and written by `add`.
            let mut others = Unlinked(unsafe { next.read() });
            // SAFETY: as above.
            let entry = unsafe { &raw mut (*linked).entry };
            // INVARIANT: from `Entry::new`, and nothing else uses it.
            drop(Owned(entry));
            self.0 = core::mem::replace(&mut others.0, null_mut());
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/map_entry.rs"]
mod tests;
