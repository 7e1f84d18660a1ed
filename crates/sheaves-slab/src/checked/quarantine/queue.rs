//! The queue of a quarantine: sheaves of sealed objects, oldest first.

use sheaves_percpu::internal::Cursor;
use sheaves_rcu::internal::queue::Open;
use sheaves_sys::clock;
use sheaves_sys::lock::Lock;

use crate::parts::pool;
use crate::space::cache_id::{CACHES_MAX, CacheId};
use crate::space::hint::Hint;
use crate::space::{granule, limit};

/// A quarantine holds at least this many objects, where the cache frees as many: the first number,
/// and the second as far as these bytes have room for it.
const OBJECTS_MIN: [usize; 2] = [8, 256];
const BYTES_MIN: usize = 256 << 10;
/// It holds as many as are in use, up to these bytes: a small process takes few pages for it, and
/// what waits of a size is in the caches of a CPU.
const BYTES_SMALL: usize = 64 << 10;
/// More is allowed up to this share of what is outside of slabs.
const SHARE: usize = 64;
/// The quarantines of all size classes together hold this many bytes, or that share of the heap.
const BYTES_ALL: usize = 4 << 20;
/// Where there are more, each has this part of what it may have.
const PART: usize = 8;
/// An object stays twice as long at most.
const AGE_MS: u64 = 10_000;

/// What the lock guards. Sheaves are linked by their numbers, 0 is none.
#[derive(Debug)]
pub(crate) struct Fifo {
    oldest: u32,
    youngest: u32,
    /// A sheaf for single objects.
    pub(super) open: Open,
    /// The youngest one at some time, as long as it waits, and that time.
    noted: u32,
    noted_ms: u64,
}

/// The quarantine of a cache, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Quarantine {
    pub(crate) fifo: Lock<Fifo>,
    /// Objects in it; changes under the lock.
    objects: Hint,
}

static TABLE: [Quarantine; CACHES_MAX] =
    [const { Quarantine { fifo: Lock::new(Fifo::NEW), objects: Hint::new(0) } }; CACHES_MAX];

/// What [`BYTES_ALL`] bounds. Changes under the locks of the classes.
static BYTES: Hint = Hint::new(0);

/// The bytes that an object counts for in [`BYTES`].
fn counted_bytes(id: CacheId) -> usize {
    if id.is_class() { id.shape().stride } else { 0 }
}

/// True if the size classes have more in quarantine together than they may by some bytes.
pub(super) fn have_too_much(more: usize) -> bool {
    BYTES.get() > BYTES_ALL.max(granule::heap_bytes() / SHARE) + more
}

/// The quarantine of a cache.
pub(crate) fn of(id: CacheId) -> &'static Quarantine {
    &TABLE[usize::from(id.number())]
}

/// The most objects of a cache that wait. Where all size classes have too much, one that has some
/// allocates its oldest ones.
pub(super) fn objects_max(id: CacheId) -> usize {
    let (stride, outside) = (id.shape().stride, id.descriptor().depot.outside());
    let least = (BYTES_MIN / stride).clamp(OBJECTS_MIN[0], OBJECTS_MIN[1]);
    let objects_max =
        (outside / 2).clamp(least, least.max(BYTES_SMALL / stride)).max(outside / SHARE);
    if id.is_class() && have_too_much(0) { objects_max / PART } else { objects_max }
}

impl Fifo {
    const NEW: Fifo = Fifo { oldest: 0, youngest: 0, open: Open::NONE, noted: 0, noted_ms: 0 };

    /// Appends a sheaf that the caller owns and gives up. It is made so small that its objects fill
    /// it: a queue keeps no cursors.
    pub(super) fn append(&mut self, cursor: Cursor) {
        if !cursor.is_full() {
            pool::resize(cursor, cursor.fill());
        }
        let sheaf = cursor.sheaf();
        // SAFETY: the caller owns the sheaf.
        unsafe { sheaf.set_link(0) };
        let number = pool::number_of(sheaf);
        match pool::of_number(self.youngest) {
            // SAFETY: the lock's holder owns the sheaves of the queue.
            Some(youngest) => unsafe { youngest.set_link(number as usize) },
            None => self.oldest = number,
        }
        self.youngest = number;
    }

    pub(super) fn append_open(&mut self) {
        let open = self.open.take();
        if open.is_sheaf() {
            self.append(open);
        }
    }

    /// True if the oldest sheaf is older than [`AGE_MS`]. Notes the youngest from time to time.
    fn is_too_old(&mut self, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.noted_ms) < AGE_MS {
            return false;
        }
        let is_too_old = self.noted != 0;
        if !is_too_old {
            (self.noted, self.noted_ms) = (self.youngest, now_ms);
        }
        is_too_old
    }
}

impl Quarantine {
    /// Objects in quarantine. For statistics.
    pub(crate) fn objects(&self) -> usize {
        self.objects.get()
    }

    /// Counts objects that came. Under the lock.
    pub(super) fn count(&self, id: CacheId, objects: usize) {
        self.objects.add(objects);
        BYTES.add(objects * counted_bytes(id));
    }

    /// Takes the oldest sheaf if there are more objects than `objects_max`, or if it is too old.
    pub(super) fn take_surplus(&self, id: CacheId, objects_max: usize) -> Option<Cursor> {
        let now_ms = clock::coarse_ms();
        let mut fifo = self.fifo.lock();
        let is_too_much = self.objects() > objects_max || limit::is_near();
        if is_too_much || fifo.is_too_old(now_ms) { self.take_oldest(id, &mut fifo) } else { None }
    }

    /// Takes the oldest sheaf; the caller owns it.
    pub(super) fn take_oldest(&self, id: CacheId, fifo: &mut Fifo) -> Option<Cursor> {
        let sheaf = pool::of_number(fifo.oldest)?;
        if fifo.noted == fifo.oldest {
            fifo.noted = 0;
        }
        fifo.oldest = sheaf.link() as u32;
        if fifo.oldest == 0 {
            fifo.youngest = 0;
        }
        let cursor = sheaf.full();
        self.objects.sub(cursor.fill());
        BYTES.sub(cursor.fill() * counted_bytes(id));
        Some(cursor)
    }
}
