//! Reference counts that cost no atomic instruction while their object is alive.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

use sheaves_sys::lock::Lock;

use crate::engine::Access;
use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::memory::access::retry;
use crate::memory::state::{Lazy, Shape};
use crate::slots;

/// Alive: references are counted in the slots.
const ALIVE: usize = 0;
/// Killed: references are counted in `count`.
const KILLED: usize = 1;
/// What `count` has too much until the slots' counts are in it: so it cannot come to 0 before.
const BIAS: usize = 1 << 62;

/// Held while a count changes from alive to killed or back, so that no fork finds it in between: in
/// the child nobody would take it to the end.
pub(crate) static KILLING: Lock<()> = Lock::new(());

/// A reference count for something that lives long and is used by many.
///
/// It begins with one reference, that of whoever made it. While it is alive, taking and putting a
/// reference is one transaction on the current slot, and nobody knows the sum. [`PerCpuRef::kill`]
/// ends that: it gathers the slots' counts into one atomic number and puts the first reference.
/// Whoever puts the last one calls `release`, once.
///
/// ```
/// use core::sync::atomic::{AtomicBool, Ordering};
/// use sheaves_percpu::PerCpuRef;
///
/// static CLOSED: AtomicBool = AtomicBool::new(false);
/// static SERVICE: PerCpuRef = PerCpuRef::new(|| CLOSED.store(true, Ordering::Release));
///
/// // A request comes in and is worked on.
/// assert!(SERVICE.try_get_live());
/// // The service ends: no new requests, but the old one is finished first.
/// assert!(SERVICE.kill()?);
/// assert!(!SERVICE.try_get_live());
/// assert!(!CLOSED.load(Ordering::Acquire));
/// SERVICE.put();
/// assert!(CLOSED.load(Ordering::Acquire));
/// # Ok::<(), sheaves_percpu::KillError>(())
/// ```
///
/// Everything that happened before a reference was put happens before `release`. Getting and
/// putting never wait; after the first of them they are async-signal-safe, unless `release` is not.
/// After a fork parent and child count on their own.
///
/// # Invariants
/// While alive, the references are `count` less a bias plus the slots' counts. Once the slots'
/// counts have been gathered they are `count`, and 0 is final until [`PerCpuRef::reinit`].
///
/// | state | written by | when |
/// |---|---|---|
/// | `mode` | `kill`, `reinit` | alive -> killed -> alive; read inside of every transaction |
/// | a slot's count | transactions on that slot | while `mode` is alive; taken by `kill` |
/// | `count` | anybody, by atomics | no slot, or killed |
pub struct PerCpuRef<R: Fn() = fn()> {
    mode: AtomicUsize,
    counts: Lazy,
    count: AtomicUsize,
    release: R,
}

/// Why a reference count could not be killed: it stays alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KillError {
    /// The other processors cannot be reached: a filter refuses both `membarrier` and
    /// `sched_setaffinity`, or a processor that was used is not permitted any more.
    NoFence,
}

/// Why a reference count could not begin again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReinitError {
    /// It was not killed, or begins again at this moment.
    Alive,
    /// There are references.
    InUse,
}

impl fmt::Display for KillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("other processors cannot be fenced")
    }
}

impl fmt::Display for ReinitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReinitError::Alive => "the reference count is alive",
            ReinitError::InUse => "there are references",
        })
    }
}

impl core::error::Error for KillError {}
impl core::error::Error for ReinitError {}

impl<R: Fn()> PerCpuRef<R> {
    /// A count with one reference. `release` is called when the last one is put, after a kill.
    #[must_use]
    pub const fn new(release: R) -> PerCpuRef<R> {
        PerCpuRef {
            mode: AtomicUsize::new(ALIVE),
            counts: Lazy::new(),
            count: AtomicUsize::new(BIAS + 1),
            release,
        }
    }

    /// Takes one more reference, for somebody who has one.
    #[inline]
    pub fn get(&self) {
        // Somebody who has none may come too late; then there is nothing to count.
        let _ = self.try_get();
    }

    /// Takes a reference, unless all have been put after a kill.
    #[inline]
    #[must_use]
    pub fn try_get(&self) -> bool {
        self.change::<1>() == Outcome::Done || self.try_get_slow(false)
    }

    /// Takes a reference, unless it has been killed.
    ///
    /// Once [`PerCpuRef::kill`] has returned nobody gets one by this.
    #[inline]
    #[must_use]
    pub fn try_get_live(&self) -> bool {
        self.change::<1>() == Outcome::Done || self.try_get_slow(true)
    }

    /// Puts a reference that the caller has. The last one, after a kill, calls `release`.
    #[inline]
    pub fn put(&self) {
        if self.change::<-1>() != Outcome::Done {
            self.put_slow();
        }
    }

    /// Ends the life: from now on references are counted in one place, and the first reference is
    /// put. False when somebody else was first, who may not have finished and may yet fail.
    ///
    /// Interrupts the processors that run this process once, as
    /// [`drain`](crate::slots::drain) does. May sleep.
    ///
    /// # Errors
    /// See [`KillError`]. Then nothing changed.
    pub fn kill(&self) -> Result<bool, KillError> {
        // Before anything else, so that nobody finds the counts made after they were gathered.
        let offset = self.counts.get().or_else(|| self.counts.make(Shape::WORD));
        let killing = KILLING.lock();
        // AcqRel: Acquire pairs with the Release in `reinit`; the fence in `close` is what orders
        // this before every later transaction. Relaxed on failure: nothing follows.
        let mode = &self.mode;
        if mode.compare_exchange(ALIVE, KILLED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Ok(false);
        }
        let counted = offset.map_or(Some(0), slots::close);
        let Some(counted) = counted else {
            // Release pairs with the Acquire of guarded additions.
            mode.store(ALIVE, Ordering::Release);
            return Err(KillError::NoFence);
        };
        let gather = |count: usize| {
            let exact = count.wrapping_sub(BIAS).wrapping_add(counted).cast_signed();
            // References that were put without being taken must not make it wrap. And the first
            // one is put.
            exact.max(1).cast_unsigned() - 1
        };
        // AcqRel: Acquire pairs with the Release in `put_counted`, of all who put one before, and
        // Release with the Acquire there. Relaxed on failure, which there is none of.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        let before = self.count.fetch_update(set, fetch, |count| Some(gather(count)));
        drop(killing);
        if before.is_ok_and(|count| gather(count) == 0) {
            (self.release)();
        }
        Ok(true)
    }

    /// Begins a new life with one reference, after the end of the last one.
    ///
    /// # Errors
    /// See [`ReinitError`]. Then nothing changed.
    pub fn reinit(&self) -> Result<(), ReinitError> {
        if !self.is_killed() {
            return Err(ReinitError::Alive);
        }
        let _killing = KILLING.lock();
        // AcqRel: Acquire pairs with the Release of the last `put`, Release with the Acquire of
        // the next `get`. Relaxed on failure: nothing follows.
        let begin = BIAS + 1;
        let count = &self.count;
        if count.compare_exchange(0, begin, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Err(ReinitError::InUse);
        }
        if let Some(offset) = self.counts.get() {
            slots::reopen(offset);
        }
        // Release pairs with the Acquire of guarded additions: the words are open.
        self.mode.store(ALIVE, Ordering::Release);
        Ok(())
    }

    /// True from a kill on, until it begins again.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        // Acquire pairs with the Release in `kill` and `reinit`.
        self.mode.load(Ordering::Acquire) != ALIVE
    }

    /// True once the last reference has been put after a kill.
    #[must_use]
    pub fn is_released(&self) -> bool {
        // Acquire pairs with the Release of the last `put`.
        self.count.load(Ordering::Acquire) == 0
    }

    /// One transaction on the current slot's count.
    #[inline(always)]
    fn change<const AMOUNT: i32>(&self) -> Outcome {
        let Some(offset) = self.counts.get() else { return Outcome::NoBlock };
        // SAFETY: there are objects, so the engine has started.
        let access = unsafe { Access::of_started() };
        // SAFETY: the word is this count's own and out as long as it exists.
        unsafe { transactions::add_guarded::<AMOUNT>(access, &self.mode, offset) }
    }

    /// The same on any engine. `Declined`: killed; `None`: no slot.
    fn change_slow<const AMOUNT: i32>(&self) -> Option<Outcome> {
        let offset = self.counts.get().or_else(|| self.counts.make(Shape::WORD))?;
        // SAFETY: the word is this count's own and out as long as it exists.
        retry(|| unsafe { slow::add_guarded::<AMOUNT>(&self.mode, offset) })
    }

    #[cold]
    #[inline(never)]
    fn try_get_slow(&self, live: bool) -> bool {
        if !self.is_killed() && self.change_slow::<1>() == Some(Outcome::Done) {
            return true;
        }
        if live && self.is_killed() {
            return false;
        }
        // While the bias is in, a kill has not come to its end.
        let least = if live { BIAS / 2 } else { 1 };
        let increment = |count: usize| (count >= least).then_some(count + 1);
        // Relaxed: as with any reference count, whoever gets one has the object already.
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn put_slow(&self) {
        if self.is_killed() || self.change_slow::<-1>() != Some(Outcome::Done) {
            self.put_counted();
        }
    }

    /// Puts a reference that is, or will be, in `count`.
    fn put_counted(&self) {
        let decrement = |count: usize| count.checked_sub(1);
        // Release pairs with the Acquire below, of whoever puts the last one. Relaxed on failure:
        // there was nothing to put.
        let before = self.count.fetch_update(Ordering::Release, Ordering::Relaxed, decrement);
        if before == Ok(1) {
            // Acquire pairs with the Release above, of all who put one.
            fence(Ordering::Acquire);
            (self.release)();
        }
    }
}

impl<R: Fn()> Drop for PerCpuRef<R> {
    fn drop(&mut self) {
        // SAFETY: made with this shape; nobody counts any more.
        unsafe { self.counts.end(Shape::WORD) };
    }
}

impl<R: Fn()> fmt::Debug for PerCpuRef<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpuRef")
            .field("killed", &self.is_killed())
            .field("released", &self.is_released())
            .finish()
    }
}
