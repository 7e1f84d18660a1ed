//! The quarantine: what is freed in a hardened cache waits here before it can be allocated again.
//!
//! ```text
//!   free --push--> sheaf of the slot        not checked yet: `free` is the same push as ever
//!                     | full or drained: sealed: each object is checked, held and cleared
//!                     v
//!                  queue of the cache, oldest first, bounded by bytes and age
//!                     |
//!                   slabs                   still held
//!                     | refill, in random order: checked again, let go
//!                     v
//!                  sheaf of the slot --pop--> alloc
//! ```
//!
//! An object is *held* (`Slab::hold`) from the moment it is sealed until a refill takes it. So an
//! object that is freed twice is found when the second free is sealed, however far the first one
//! has come. Until then both wait, and it cannot be allocated.
//!
//! A second free of an object that has been let go frees what is in use, or about to be: it cannot
//! be told from a first one. The quarantine makes the time until then long.
//!
//! A fork whose handlers do not run may lose what a thread that is not in the child was moving.

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_percpu::internal::{Cursor, Sheaf};
use sheaves_rcu::defer::Open;
use sheaves_sys::clock;
use sheaves_sys::lock::Lock;

use crate::cache_id::{CACHES_MAX, CacheId};
use crate::shape::Shape;
use crate::{chunk, contents, flush, limit, pool, refill, registry, slot};

/// A quarantine holds at least this many bytes, where the cache frees as many.
const BYTES_MIN: usize = 256 << 10;
/// The same for objects that take no memory while they wait.
const BYTES_MIN_ALONE: usize = 32 << 20;
/// More is allowed up to this share of what is outside of slabs.
const SHARE: usize = 8;
/// An object stays twice as long at most.
const AGE_MS: u64 = 10_000;
/// As much is worth a keeper.
const MUCH_BYTES: usize = 64 << 10;

/// What the lock guards. Sheaves are linked by their numbers, 0 is none.
#[derive(Debug)]
pub(crate) struct Fifo {
    oldest: u32,
    youngest: u32,
    /// A sheaf for single objects.
    open: Open,
    /// Sheaves that were ever appended and removed.
    appended: u64,
    removed: u64,
    /// How many had been appended at some time that is at most [`AGE_MS`] ago.
    noted: u64,
    noted_ms: u64,
}

/// The quarantine of a cache, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Quarantine {
    pub(crate) fifo: Lock<Fifo>,
    /// Objects in it; changes under the lock.
    objects: AtomicU32,
}

static TABLE: [Quarantine; CACHES_MAX] =
    [const { Quarantine { fifo: Lock::new(Fifo::new()), objects: AtomicU32::new(0) } }; CACHES_MAX];

/// The quarantine of a cache.
pub(crate) fn of(id: CacheId) -> &'static Quarantine {
    &TABLE[usize::from(id.number())]
}

/// Seals a sheaf of freed objects that the caller owns.
pub(crate) fn seal(id: CacheId, cursor: Cursor) {
    let shape = id.shape();
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    let count = admit(id, shape, objects);
    let cursor = cursor.down(objects.len() - count);
    if count == 0 {
        pool::put_empty(cursor.sheaf());
        return;
    }
    let quarantine = of(id);
    let mut fifo = quarantine.fifo.lock();
    quarantine.count(count as i32);
    fifo.append(cursor);
    drop(fifo);
    release_surplus(id);
}

/// Puts one object into quarantine, checked at once.
pub(crate) fn add(id: CacheId, object: usize) {
    let shape = id.shape();
    if admit(id, shape, &mut [object]) == 0 {
        return;
    }
    let quarantine = of(id);
    let mut fifo = quarantine.fifo.lock();
    while !fifo.open.cursor().is_sheaf() {
        drop(fifo);
        let Some(sheaf) = pool::take_empty() else {
            // No memory for a sheaf: without quarantine.
            release(id, &mut [object]);
            return;
        };
        fifo = quarantine.fifo.lock();
        if fifo.open.cursor().is_sheaf() {
            pool::put_empty(sheaf);
        } else {
            fifo.open.set(pool::format(sheaf, shape.sheaf_objects.min(Sheaf::OBJECTS_MAX)));
        }
    }
    // SAFETY: the lock's holder owns the open sheaf, which is not full.
    let pushed = unsafe { fifo.open.cursor().push(object) };
    fifo.open.set(pushed);
    quarantine.count(1);
    if pushed.is_full() {
        fifo.append_open();
    }
    drop(fifo);
    release_surplus(id);
}

/// Moves the objects that are `wanted` to the front, in their order; returns how many there are.
fn keep(objects: &mut [usize], mut wanted: impl FnMut(usize) -> bool) -> usize {
    let mut count = 0;
    for index in 0..objects.len() {
        if wanted(objects[index]) {
            objects[count] = objects[index];
            count += 1;
        }
    }
    count
}

/// Checks objects that are freed, holds and clears them: sorted at the front; returns their number.
/// Those that are held already are reported.
fn admit(id: CacheId, shape: &Shape, objects: &mut [usize]) -> usize {
    hold(id, shape, objects, |object, index| {
        contents::check_canaries(shape, object, index > 0);
        contents::clear(shape, object);
    })
}

/// Holds objects, and calls `visit` with each and its index: sorted at the front; returns their
/// number. Those that are held already are reported. Aborts the process if no object of the cache
/// starts at an address.
fn hold(
    id: CacheId,
    shape: &Shape,
    objects: &mut [usize],
    mut visit: impl FnMut(usize, usize),
) -> usize {
    objects.sort_unstable();
    let (mut next, mut count) = (0, 0);
    while next < objects.len() {
        let (slab, first) = flush::find(id, objects[next]);
        let (start, word) = (objects[next] - first * shape.stride, first / 64);
        // As many as are different and in the same word.
        let (begin, mut bits) = (next, 0);
        while next < objects.len()
            && let Some(index) = shape.index_of(objects[next] - start)
            && index / 64 == word
            && bits >> (index % 64) & 1 == 0
        {
            bits |= 1 << (index % 64);
            next += 1;
        }
        let before = slab.hold(word, bits);
        for place in begin..next {
            let object = objects[place];
            let index = (object - start) / shape.stride;
            if before >> (index % 64) & 1 == 0 {
                visit(object, index);
                objects[count] = object;
                count += 1;
            } else {
                report_double_free(shape, object);
            }
        }
    }
    count
}

#[cold]
fn report_double_free(shape: &Shape, object: usize) {
    let (name, size) = (shape.name(), shape.size);
    contents::found(format_args!(
        "double free of {object:#x}, an object of cache {name} (size {size})"
    ));
}

/// Returns the objects of a sheaf to allocate from to their slabs.
pub(crate) fn put_back(id: CacheId, cursor: Cursor) {
    slot::clean(id, cursor);
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    return_unused(id, unsafe { cursor.objects() });
    pool::put_empty(cursor.sheaf());
}

/// Returns objects of any cache to their slabs that were taken and not allocated.
pub(crate) fn return_unused(id: CacheId, objects: &mut [usize]) {
    let shape = id.shape();
    let count = match shape.hardened {
        true => hold(id, shape, objects, |_, _| {}),
        false => objects.len(),
    };
    flush::flush(id, &mut objects[..count]);
}

/// Releases the oldest sheaves while there is too much, or they are too old.
fn release_surplus(id: CacheId) {
    let now_ms = clock::coarse_ms();
    while let Some(cursor) = of(id).take_surplus(id, now_ms) {
        release_sheaf(id, cursor);
    }
    if of(id).objects() * id.shape().stride >= MUCH_BYTES {
        chunk::note_unused();
    }
}

/// For the keeper: releases what is too old. True if something is left.
pub(crate) fn age(id: CacheId) -> bool {
    if !id.shape().hardened {
        return false;
    }
    release_surplus(id);
    of(id).objects() != 0
}

/// Releases everything.
pub(crate) fn release_all(id: CacheId) {
    while let Some(cursor) = take_any(id) {
        release_sheaf(id, cursor);
    }
}

fn take_any(id: CacheId) -> Option<Cursor> {
    let mut fifo = of(id).fifo.lock();
    fifo.append_open();
    of(id).take_oldest(&mut fifo)
}

/// Releases everything of all caches, when memory is out. True if there was something.
pub(crate) fn release_everything() -> bool {
    let release = |id: CacheId| {
        let any = of(id).objects() != 0;
        release_all(id);
        any
    };
    let any = registry::map_existing(release).fold(false, |any, one| any | one);
    refill::arm_reclaimer_if_pending();
    any
}

/// Takes one object from the slabs, or what is in quarantine if memory is out. Otherwise 0.
pub(crate) fn refill_one(id: CacheId) -> usize {
    let mut one = [0];
    if refill::refill(id, &mut one) == 0 && release_everything() {
        refill::refill(id, &mut one);
    }
    one[0]
}

fn release_sheaf(id: CacheId, cursor: Cursor) {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    release(id, unsafe { cursor.objects() });
    pool::put_empty(cursor.sheaf());
}

/// Returns objects to their slabs. What the kernel does not make accessible again is lost.
fn release(id: CacheId, objects: &mut [usize]) {
    let shape = id.shape();
    let count = keep(objects, |object| contents::make_accessible(shape, object));
    flush::flush(id, &mut objects[..count]);
}

/// Checks that nothing was written to what is in quarantine, and releases it, when the process
/// ends.
pub(crate) fn check(id: CacheId) {
    let shape = id.shape();
    while !shape.is_alone()
        && let Some(cursor) = take_any(id)
    {
        // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
        let objects = unsafe { cursor.objects() };
        objects.iter().for_each(|object| contents::check_free(shape, *object));
        release_sheaf(id, cursor);
    }
}

impl Fifo {
    const fn new() -> Fifo {
        Fifo {
            oldest: 0,
            youngest: 0,
            open: Open::NONE,
            appended: 0,
            removed: 0,
            noted: 0,
            noted_ms: 0,
        }
    }

    /// Appends a sheaf that the caller owns and gives up.
    fn append(&mut self, cursor: Cursor) {
        let full = make_full(cursor);
        // SAFETY: the caller owns the sheaf.
        unsafe { full.set_link(0) };
        let number = pool::number_of(full);
        match pool::of_number(self.youngest) {
            // SAFETY: the lock's holder owns the sheaves of the queue.
            Some(youngest) => unsafe { youngest.set_link(number as usize) },
            None => self.oldest = number,
        }
        self.youngest = number;
        self.appended += 1;
    }

    fn append_open(&mut self) {
        let open = self.open.take();
        if open.is_sheaf() {
            self.append(open);
        }
    }

    /// Removes the oldest sheaf; the caller owns it.
    fn remove_oldest(&mut self) -> Option<Cursor> {
        let sheaf = pool::of_number(self.oldest)?;
        self.oldest = sheaf.link() as u32;
        if self.oldest == 0 {
            self.youngest = 0;
        }
        self.removed += 1;
        Some(sheaf.full())
    }

    /// True if the oldest sheaf is older than [`AGE_MS`]. Notes what there is from time to time.
    fn is_too_old(&mut self, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.noted_ms) < AGE_MS {
            return false;
        }
        if self.removed < self.noted {
            return true;
        }
        (self.noted, self.noted_ms) = (self.appended, now_ms);
        false
    }
}

/// A sheaf made smaller, so that its objects fill it: a queue keeps no cursors.
fn make_full(cursor: Cursor) -> Sheaf {
    let sheaf = cursor.sheaf();
    if !cursor.is_full() {
        let (first, count) = (sheaf.sentinel() + 1, cursor.fill());
        // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
        let entries = unsafe { sheaf.entries(0..Sheaf::ENTRIES) };
        entries.copy_within(first..first + count, Sheaf::ENTRIES - count);
        pool::format(sheaf, count);
    }
    sheaf
}

impl Quarantine {
    /// Objects in quarantine. For statistics.
    pub(crate) fn objects(&self) -> usize {
        // Relaxed: statistics.
        self.objects.load(Ordering::Relaxed) as usize
    }

    /// Counts objects that came, or went if negative. Under the lock.
    fn count(&self, objects: i32) {
        // Relaxed: changes under the lock.
        self.objects.fetch_add(objects.cast_unsigned(), Ordering::Relaxed);
    }

    /// Takes the oldest sheaf if there is too much, or if it is too old.
    fn take_surplus(&self, id: CacheId, now_ms: u64) -> Option<Cursor> {
        let shape = id.shape();
        let bytes = self.objects() * shape.stride;
        let in_use_bytes = id.descriptor().depot.in_use() as usize * shape.stride;
        let bytes_min = if shape.is_alone() { BYTES_MIN_ALONE } else { BYTES_MIN };
        let bytes_max = if limit::is_near() { 0 } else { bytes_min.max(in_use_bytes / SHARE) };
        let mut fifo = self.fifo.lock();
        let is_wanted = fifo.is_too_old(now_ms) || bytes > bytes_max;
        if is_wanted { self.take_oldest(&mut fifo) } else { None }
    }

    fn take_oldest(&self, fifo: &mut Fifo) -> Option<Cursor> {
        let cursor = fifo.remove_oldest()?;
        self.count(-(cursor.fill() as i32));
        Some(cursor)
    }

    /// Takes the lock in a child whose fork was not prepared. What is in a queue that a missing
    /// thread was changing is lost.
    pub(crate) fn recover(&self) {
        self.fifo.acquire_to_recover(|fifo| {
            *fifo = Fifo::new();
            // Relaxed: changes under the lock.
            self.objects.store(0, Ordering::Relaxed);
        });
    }
}
