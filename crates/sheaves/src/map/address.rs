//! Places that hold the address of an entry, with 16 bits of its hash above.

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::entry::{Entry, Unlinked};
use super::tables::Chain;
use super::tables::bucket::{Found, Place};
use super::tables::spread::spread;
use super::tables::table::{PLACE_BITS, Rehash, Table};

const BITS_SHIFT: u32 = u64::BITS - PLACE_BITS;
/// The lower 48 bits, which all addresses of user space have unless a program asks for more.
const ADDRESS: usize = (1 << BITS_SHIFT) - 1;

/// A place of [`super::RcuHashMap`]'s tables.
pub(super) struct Address<K, V>(AtomicPtr<Entry<K, V>>);

impl<K, V> Place for Address<K, V> {
    /// The address, with the bits above.
    type Content = *mut Entry<K, V>;
    type Stamp = ();
    type Unlinked = Unlinked<K, V>;
    const ENTRY_BYTES: usize = Entry::<K, V>::LAYOUT.size();
    const IS_BRIEF: bool = false;
    /// Of six places four are then occupied, and one entry in 20 is in an overflow bucket; one in 9
    /// once many keys have been removed and inserted.
    const ENTRIES_MAX: usize = 4;
    const SHRINKS: bool = true;

    #[inline(always)]
    fn load(&self) -> *mut Entry<K, V> {
        // Acquire pairs with the Release in `replace`: what the entry holds. [M2]
        self.0.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn fill(&self, (): &(), content: *mut Entry<K, V>) {
        self.replace(content);
    }

    #[inline(always)]
    fn replace(&self, content: *mut Entry<K, V>) {
        // Release pairs with the Acquire in `load`: what the entry holds. [M2]
        self.0.store(content, Ordering::Release);
    }

    fn unlinked() -> Unlinked<K, V> {
        Unlinked::new()
    }

    unsafe fn unlink(content: *mut Entry<K, V>, list: &mut Unlinked<K, V>) {
        // SAFETY: the caller's contract; entries in tables are from `Entry::new`.
        unsafe { list.add(entry_at(content)) };
    }
}

impl<K: Hash, V, S: BuildHasher> Rehash<S> for Address<K, V> {
    #[inline(always)]
    fn with_hash(content: Self::Content, hash: u64, table: &Table<Self>) -> Self::Content {
        let bits = (hash >> table.bits_shift) << BITS_SHIFT;
        entry_at(content).map_addr(|address| address | bits as usize)
    }

    #[inline]
    unsafe fn hash(
        content: Self::Content,
        hasher: &S,
        from: &Table<Self>,
        to: &Table<Self>,
    ) -> u64 {
        if from.bits_shift == to.bits_shift {
            return (content.addr() as u64 >> BITS_SHIFT) << from.bits_shift;
        }
        // SAFETY: the caller's contract.
        spread(hasher.hash_one(unsafe { &(*entry_at(content)).key }))
    }
}

/// The entry at a place.
#[inline(always)]
pub(super) fn entry_at<K, V>(content: *mut Entry<K, V>) -> *mut Entry<K, V> {
    content.map_addr(|address| address & ADDRESS)
}

impl<K, V> Found<'_, Address<K, V>> {
    #[inline(always)]
    pub(super) fn entry(&self) -> *mut Entry<K, V> {
        entry_at(self.content)
    }
}

impl<'g, K: Eq, V> Chain<'g, Address<K, V>> {
    /// Searches the chain for a key.
    #[inline(always)]
    pub(super) fn find<Q: Eq + ?Sized>(&self, key: &Q) -> Option<Found<'g, Address<K, V>>>
    where
        K: Borrow<Q>,
    {
        // SAFETY: entries in a chain are not ended while its lock is held.
        self.search(|content| unsafe { (*entry_at(content)).key.borrow() == key })
    }
}
