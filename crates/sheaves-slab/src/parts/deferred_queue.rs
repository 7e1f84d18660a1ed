//! Sealed sheaves that wait for their cookies, oldest first.
//!
//! A queue belongs to a cache and a shard of its slots. Its lock is held for a handful of
//! instructions, once for each sheaf. A sealed sheaf keeps its state below its sentinel, see
//! [`queue::Queue`].

use sheaves_percpu::internal::{Cursor, Sheaf};
use sheaves_rcu::Cookie;
use sheaves_rcu::internal::{self, pressure, queue};
use sheaves_sys::clock;
use sheaves_sys::lock::Lock;

use crate::parts::pool::{self, put_empty};
use crate::parts::shape::Shape;
use crate::space::hint::Hint;

/// The lowest index of a sentinel.
const SENTINEL_MIN: usize = queue::STATE_ENTRIES;
/// The most objects of a sheaf that can be sealed.
const OBJECTS_MAX: usize = Sheaf::OBJECTS_MAX - SENTINEL_MIN;

/// Bounds of `start_after`. The lower one keeps the waiting objects in a CPU's second-level cache.
/// The upper one is for expensive grace periods.
const START_SHEAVES_MIN: u32 = 8;
const START_SHEAVES_MAX: u32 = 128;
/// A queue with more sheaves than this passes ready ones to the depot.
const LONG_SHEAVES: usize = 2 * START_SHEAVES_MAX as usize;
/// A queue reports changes of the deferred bytes in steps of at least this.
const TOLD_BYTES: usize = 512 << 10;
/// A thread spends about 1/`TIME_SHARE` of its time on grace periods. A grace period without a
/// membarrier costs 0.1 us alone, and several us where two CPUs contend for its words; a membarrier
/// costs 0.3 us when no other thread runs, and 10 us when one does. With two threads on two CPUs an
/// allocation and a deferred free take 6.6 ns with a share of 8, and 4.8 ns with 64.
const TIME_SHARE: u64 = 64;

/// Memory for another sheaf is out.
#[derive(Debug)]
pub(crate) struct NoSheaf;

/// State of the queue right after a sheaf was sealed.
#[derive(Debug)]
pub(crate) struct JustSealed {
    pub(crate) cookie: Cookie,
    pub(crate) objects: usize,
    /// `sheaves-rcu` was told of it: the caller calls [`internal::wake_if_pressed`], without locks.
    pub(crate) is_told: bool,
    /// Sheaves of the queue for which no grace period was started, including this one.
    pub(crate) unstarted: u32,
    /// The queue is longer than [`LONG_SHEAVES`].
    pub(crate) is_long: bool,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct Waiting {
    sheaves: queue::Queue,
    /// Cookie of the youngest sheaf, and how many sheaves at the end of the queue carry it. For the
    /// others a grace period has begun.
    cookie: u64,
    unstarted: u32,
    /// A sheaf that is not sealed yet.
    open: queue::Open,
    /// Bytes and objects that were sealed, less those reclaimed, not yet reported to `sheaves-rcu`.
    /// They are reported in large steps, since all CPUs share the words that a report writes.
    untold_bytes: isize,
    untold_objects: isize,
}

/// A shard's queue, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct ShardQueue {
    pub(crate) waiting: Lock<Waiting>,
    /// Number of unstarted sheaves after which this queue starts a grace period; 0 stands for
    /// [`START_SHEAVES_MIN`].
    start_after: Hint,
    /// When this queue last started one, in ns of the fine clock.
    started_ns: Hint,
    /// Sheaves in the queue; changes under the lock.
    sheaf_count: Hint,
    /// Objects in the queue and in the open sheaf; changes under the lock.
    objects: Hint,
}

impl Waiting {
    /// Counts objects that entered, or left if negative; true if that was reported to
    /// `sheaves-rcu`.
    fn tell(&mut self, objects: isize, stride: usize) -> bool {
        self.untold_objects += objects;
        self.untold_bytes += objects * stride as isize;
        let is_much = self.untold_bytes.unsigned_abs() >= TOLD_BYTES;
        if is_much {
            self.tell_all();
        }
        is_much
    }

    /// Reports all changes so far to `sheaves-rcu`.
    pub(crate) fn tell_all(&mut self) {
        let objects = core::mem::take(&mut self.untold_objects);
        let bytes = core::mem::take(&mut self.untold_bytes);
        if bytes > 0 {
            pressure::note_sealed(objects.unsigned_abs(), bytes.unsigned_abs());
        } else {
            pressure::note_reclaimed(objects.unsigned_abs(), bytes.unsigned_abs());
        }
    }
}

/// Makes a sheaf that the caller owns an empty one to defer objects with.
pub(crate) fn format(shape: &Shape, sheaf: Sheaf) -> Cursor {
    pool::format(sheaf, shape.sheaf_objects.min(OBJECTS_MAX))
}

impl ShardQueue {
    pub(crate) const fn new() -> ShardQueue {
        let waiting = Waiting {
            sheaves: queue::Queue::new(),
            cookie: 0,
            unstarted: 0,
            open: queue::Open::NONE,
            untold_bytes: 0,
            untold_objects: 0,
        };
        ShardQueue {
            waiting: Lock::new(waiting),
            start_after: Hint::new(0),
            started_ns: Hint::new(0),
            sheaf_count: Hint::new(0),
            objects: Hint::new(0),
        }
    }

    /// Seals a sheaf that the caller owns. `None` when it is empty; then it is in the pool.
    pub(crate) fn seal(&self, shape: &Shape, cursor: Cursor) -> Option<JustSealed> {
        if cursor.is_empty() {
            put_empty(cursor.sheaf());
            return None;
        }
        Some(self.seal_taken(shape, &mut self.waiting.lock(), cursor))
    }

    /// [`ShardQueue::seal`] of a sheaf that is not empty, under the lock.
    pub(crate) fn seal_taken(
        &self,
        shape: &Shape,
        waiting: &mut Waiting,
        cursor: Cursor,
    ) -> JustSealed {
        debug_assert!(cursor.sheaf().sentinel() >= SENTINEL_MIN);
        self.objects.add(cursor.fill());
        self.append(shape, waiting, cursor)
    }

    /// Puts an object into the open sheaf, and seals the sheaf when it is full. `empty` provides a
    /// sheaf where there is none; it is called without the lock.
    pub(crate) fn push_open(
        &self,
        shape: &Shape,
        object: usize,
        mut empty: impl FnMut() -> Option<Sheaf>,
    ) -> Result<Option<JustSealed>, NoSheaf> {
        let mut waiting = self.waiting.lock();
        while !waiting.open.cursor().is_sheaf() {
            // When memory is out this flushes objects of the cache, which takes the cache's lock.
            drop(waiting);
            let sheaf = empty().ok_or(NoSheaf)?;
            waiting = self.waiting.lock();
            if waiting.open.cursor().is_sheaf() {
                put_empty(sheaf);
            } else {
                waiting.open.set(format(shape, sheaf));
            }
        }
        // SAFETY: the lock's holder owns the open sheaf, which is not full.
        let pushed = unsafe { waiting.open.cursor().push(object) };
        waiting.open.set(pushed);
        self.objects.add(1);
        if !waiting.open.cursor().is_full() {
            return Ok(None);
        }
        Ok(Some(self.append_open(shape, &mut waiting)))
    }

    pub(crate) fn seal_open(&self, shape: &Shape) -> Option<JustSealed> {
        let mut waiting = self.waiting.lock();
        if !waiting.open.cursor().is_sheaf() {
            return None;
        }
        Some(self.append_open(shape, &mut waiting))
    }

    /// Seals the open sheaf, which exists.
    fn append_open(&self, shape: &Shape, waiting: &mut Waiting) -> JustSealed {
        let cursor = waiting.open.take();
        self.append(shape, waiting, cursor)
    }

    /// Stamps a sheaf and appends it. Cookies are taken under the lock, so they ascend.
    fn append(&self, shape: &Shape, waiting: &mut Waiting, cursor: Cursor) -> JustSealed {
        // SAFETY: the caller owns the sheaf, whose memory is never unmapped.
        let cookie = unsafe { waiting.sheaves.append(cursor.sheaf().sentinel() + 1, cursor) };
        // Until this thread's next read section, no grace period has to interrupt it. A thread that
        // seals is in no signal handler, since it takes a lock.
        sheaves_rcu::enter_idle();
        if waiting.cookie != cookie.to_bits() {
            (waiting.cookie, waiting.unstarted) = (cookie.to_bits(), 0);
        }
        waiting.unstarted += 1;
        let (unstarted, objects) = (waiting.unstarted, cursor.fill());
        let is_told = waiting.tell(objects as isize, shape.stride);
        let sheaves = self.sheaf_count.add(1) + 1;
        JustSealed { cookie, objects, is_told, unstarted, is_long: sheaves > LONG_SHEAVES }
    }

    /// Takes the oldest sheaf if its cookie has passed; returns its cursor.
    pub(crate) fn take_ready(&self, shape: &Shape) -> Option<Cursor> {
        // Spares the lock.
        if self.sheaf_count.get() == 0 {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let cookie = waiting.sheaves.oldest()?.cookie();
        if !cookie.has_passed() {
            drop(waiting);
            // A grace period that waits for the fences of other threads ends here, if all have run
            // theirs.
            if internal::poll_quietly(cookie) {
                internal::request_membarrier();
            }
            if !cookie.has_passed() {
                return None;
            }
            waiting = self.waiting.lock();
        }
        let cursor = waiting.sheaves.ready()?.cursor();
        waiting.sheaves.remove_oldest();
        let objects = cursor.fill();
        self.sheaf_count.sub(1);
        self.objects.sub(objects);
        waiting.tell(-(objects as isize), shape.stride);
        drop(waiting);
        Some(cursor)
    }

    /// True when `unstarted` sheaves are enough to start a grace period. Under pressure fewer are.
    pub(crate) fn is_time(&self, unstarted: u32, is_pressed: bool) -> bool {
        let enough = self.start_after();
        unstarted >= if is_pressed { enough / 4 } else { enough }
    }

    /// Starts a grace period, and adjusts `start_after` by its cost.
    pub(crate) fn start(&self, cookie: Cookie) {
        let began_ns = clock::fine_ns();
        if internal::start_quietly(cookie, false) {
            internal::request_membarrier();
        }
        let took_ns = clock::fine_ns().saturating_sub(began_ns);
        let since_ns = began_ns.saturating_sub(self.started_ns.swap(began_ns as usize) as u64);
        let enough = self.start_after();
        let wanted = if took_ns * TIME_SHARE > since_ns {
            (enough * 2).min(START_SHEAVES_MAX)
        } else if took_ns * TIME_SHARE * 4 < since_ns {
            (enough / 2).max(START_SHEAVES_MIN)
        } else {
            return;
        };
        self.start_after.set(wanted as usize);
    }

    fn start_after(&self) -> u32 {
        (self.start_after.get() as u32).max(START_SHEAVES_MIN)
    }

    /// Objects in the queue and in the open sheaf. For statistics.
    pub(crate) fn objects(&self) -> usize {
        self.objects.get()
    }
}
