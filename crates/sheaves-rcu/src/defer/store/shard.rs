//! A shard of what is deferred through this crate: its open sheaf, sealed sheaves, linked heads.
//!
//! | an entry is in | until |
//! |---|---|
//! | the open sheaf (channels), or that of a slot (calls: see `calls`) | it is full, or a round |
//! | a sealed sheaf | its cookie has passed and the driver has taken the entry |
//! | the list of heads, where memory is out | the same |

use core::mem::take;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::internal::{Cursor, Sheaf};
use sheaves_sys::lock::Lock;
use sheaves_sys::probe;

use super::extents::SHEAVES;
use super::pressure;
use super::queue::{Open, Queue, STATE_ENTRIES, Sealed};
use crate::grace::cookie::Cookie;
use crate::heads::{Head, Heads};

/// The entry below the first one that is deferred. In a sealed sheaf it holds the bytes.
pub(crate) const SENTINEL: usize = STATE_ENTRIES;
pub(crate) const CAPACITY: usize = Sheaf::OBJECTS_MAX - SENTINEL;
/// Entries that have this many bytes together are sealed, and their grace period is started.
const SEAL_BYTES: usize = 1 << 20;
const SHEAVES_SEARCHED: usize = 64;
const _: () = assert!(CAPACITY == 124);

/// Protected by a shard's lock.
pub(crate) struct Waiting {
    /// The sheaf that is not sealed, and its bytes.
    open: Open,
    bytes: usize,
    queue: Queue,
    heads: Heads,
    /// Entries of sheaves that were sealed since a grace period was last started.
    unstarted: usize,
}

/// On cache lines of its own.
#[repr(align(128))]
pub(crate) struct Shard {
    pub(crate) waiting: Lock<Waiting>,
    /// Entries and linked heads, their bytes, and the linked heads alone; change under the lock.
    pub(crate) objects: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
    pub(crate) linked: AtomicUsize,
    /// Number of sealed entries after which a grace period is started.
    start_after: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) cookie: Cookie,
    /// It is time for a grace period.
    pub(crate) is_due: bool,
}

impl Shard {
    pub(crate) const fn new(start_after: usize) -> Shard {
        let (queue, heads) = (Queue::new(), Heads::new());
        Shard {
            waiting: Lock::new(Waiting { open: Open::NONE, bytes: 0, queue, heads, unstarted: 0 }),
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            linked: AtomicUsize::new(0),
            start_after,
        }
    }

    /// Adds an entry to the open sheaf. Returns whether it is the first one there, and what was
    /// sealed; `None` if memory for a sheaf is out.
    pub(crate) fn push(&self, entry: usize, bytes: usize) -> Option<(bool, Option<Batch>)> {
        let mut waiting = self.waiting.lock();
        if !waiting.open.cursor().is_sheaf() {
            // This may need a system call, so it is not done under the lock.
            drop(waiting);
            let sheaf = SHEAVES.take()?;
            waiting = self.waiting.lock();
            if waiting.open.cursor().is_sheaf() {
                // SAFETY: taken above.
                unsafe { SHEAVES.give(sheaf) };
            } else {
                waiting.open.set(format(sheaf));
            }
        }
        let is_first = waiting.open.cursor().is_empty();
        // SAFETY: the sheaf is this shard's. Full ones are sealed at once, so there is room.
        let next = unsafe { waiting.open.cursor().push(entry) };
        waiting.open.set(next);
        waiting.bytes += bytes;
        self.add(1, bytes);
        let is_sealed = waiting.bytes >= SEAL_BYTES || next.is_full();
        Some((is_first, if is_sealed { self.seal_open(&mut waiting) } else { None }))
    }

    /// Defers an object by its claimed head, where memory is out.
    pub(crate) fn link(&self, head: *mut Head, bytes: usize) -> Batch {
        let mut waiting = self.waiting.lock();
        let (cookie, passed) = (Cookie::get(), Cookie::passed().to_bits());
        let pushed = &mut waiting.heads;
        // SAFETY: valid, claimed, and on no list.
        let (heads, all_bytes) = unsafe { pushed.push(head, bytes, cookie.to_bits(), passed) };
        pressure::note_sealed(1, bytes);
        self.add(1, bytes);
        // Relaxed: changes under the lock.
        self.linked.fetch_add(1, Ordering::Relaxed);
        let is_due = heads.is_multiple_of(self.start_after)
            || all_bytes / SEAL_BYTES > (all_bytes - bytes) / SEAL_BYTES;
        Batch { cookie, is_due }
    }

    /// Seals a sheaf that the caller owns, whose entries, of `each` bytes, were not counted here.
    pub(crate) fn seal_taken(&self, waiting: &mut Waiting, cursor: Cursor, each: usize) -> Batch {
        let bytes = cursor.fill() * each;
        self.add(cursor.fill(), bytes);
        self.append(waiting, cursor, bytes)
    }

    pub(crate) fn seal_open(&self, waiting: &mut Waiting) -> Option<Batch> {
        let (cursor, bytes) = (waiting.open.take(), take(&mut waiting.bytes));
        cursor.is_sheaf().then(|| self.append(waiting, cursor, bytes))
    }

    fn append(&self, waiting: &mut Waiting, cursor: Cursor, bytes: usize) -> Batch {
        pressure::note_sealed(cursor.fill(), bytes);
        // SAFETY: the sheaf belongs to this shard, and nothing can be added to it.
        unsafe { cursor.sheaf().entries(SENTINEL..SENTINEL + 1) }.fill(bytes);
        // SAFETY: as above, and the entries up to the cursor are written.
        let cookie = unsafe { waiting.queue.append(SENTINEL + 1, cursor) };
        probe::seal(0, cursor.fill(), cookie.to_bits() as usize);
        waiting.unstarted += cursor.fill();
        let is_due = waiting.unstarted >= self.start_after || bytes >= SEAL_BYTES;
        if is_due {
            waiting.unstarted = 0;
        }
        Batch { cookie, is_due }
    }

    /// Reclaims everything whose cookie has passed before this call; true if there was something.
    /// For one thread at a time. What it defers in turn is left to a later call, so that no call
    /// goes on for ever.
    pub(crate) fn reclaim(&self, entry: impl Fn(usize), head: impl Fn(*mut Head)) -> bool {
        let mut any = false;
        let (passed, heads) = (Cookie::passed(), self.ready_heads());
        while let Some(sheaf) = self.oldest(passed) {
            // SAFETY: at the front, and only this thread reclaims.
            while let Some(taken) = unsafe { sheaf.take() } {
                entry(taken);
            }
            let mut waiting = self.waiting.lock();
            waiting.queue.remove_oldest();
            // Relaxed: constant while it is in the queue.
            self.subtract(sheaf.objects(), sheaf.entry(SENTINEL).load(Ordering::Relaxed));
            drop(waiting);
            // SAFETY: in no queue any more.
            unsafe { SHEAVES.give(sheaf.cursor().sheaf()) };
            any = true;
        }
        for taken in (0..heads).map_while(|_| self.pop_ready()) {
            head(taken);
            any = true;
        }
        any
    }

    /// The oldest sealed sheaf, if its cookie is at most `passed`.
    fn oldest(&self, passed: Cookie) -> Option<Sealed> {
        // Relaxed: a hint that saves the lock.
        if self.objects.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.waiting.lock().queue.oldest().filter(|sheaf| sheaf.cookie() <= passed)
    }

    /// Number of linked heads whose cookie has passed.
    fn ready_heads(&self) -> usize {
        // Relaxed: a hint that saves the lock.
        if self.linked.load(Ordering::Relaxed) == 0 {
            0
        } else {
            self.waiting.lock().heads.ready(Cookie::passed().to_bits())
        }
    }

    fn pop_ready(&self) -> Option<*mut Head> {
        let mut waiting = self.waiting.lock();
        let (head, bytes) = waiting.heads.pop_ready(Cookie::passed().to_bits())?;
        self.subtract(1, bytes);
        // Relaxed: changes under the lock.
        self.linked.fetch_sub(1, Ordering::Relaxed);
        Some(head)
    }

    /// True if there is something whose cookie has passed.
    pub(crate) fn has_ready(&self) -> bool {
        self.oldest(Cookie::passed()).is_some() || self.ready_heads() != 0
    }

    /// Counts what was deferred. Under the lock.
    fn add(&self, objects: usize, bytes: usize) {
        // Relaxed, both: change under the lock.
        self.objects.fetch_add(objects, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts what was sealed and is reclaimed. Under the lock.
    fn subtract(&self, objects: usize, bytes: usize) {
        pressure::note_reclaimed(objects, bytes);
        // Relaxed, both: change under the lock.
        self.objects.fetch_sub(objects, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// True if this entry is in a sheaf; searches only [`SHEAVES_SEARCHED`] sealed ones.
    pub(crate) fn has(&self, entry: usize) -> bool {
        let waiting = self.waiting.lock();
        // SAFETY: the lock keeps the sheaf here; the only reference to these entries.
        let open = unsafe { waiting.open.cursor().objects() }.iter().copied();
        let sealed = waiting.queue.each().take(SHEAVES_SEARCHED).flat_map(Sealed::left);
        open.chain(sealed).any(|found| found == entry)
    }
}

/// What is deferred and not yet reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Number of objects, or callbacks.
    pub objects: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
}

impl Pending {
    pub(crate) fn new(objects: usize, bytes: usize) -> Pending {
        Pending { objects: objects as u64, bytes: bytes as u64 }
    }

    /// What is pending in some shards, and how much of it is linked.
    pub(crate) fn of<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> (Pending, usize) {
        // Relaxed: statistics.
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        shards.into_iter().fold((Pending::default(), 0), |(pending, linked), shard| {
            let own = Pending::new(load(&shard.objects), load(&shard.bytes));
            (pending + own, linked + load(&shard.linked))
        })
    }
}

impl core::ops::Add for Pending {
    type Output = Pending;
    fn add(self, other: Pending) -> Pending {
        Pending { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }
}

/// Makes a sheaf that the caller owns an empty one.
pub(crate) fn format(sheaf: Sheaf) -> Cursor {
    // SAFETY: the caller owns it.
    unsafe { sheaf.format(CAPACITY) }
}
