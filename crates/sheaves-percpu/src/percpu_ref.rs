//! Reference counts without atomic instructions while the object is alive; cf. the kernel's
//! `percpu_ref`.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::engine::Access;
use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::fork::KILLING;
use crate::memory::access::retry;
use crate::memory::objects::LazyWord;
use crate::slots;

/// Alive: references are counted in the slots.
const ALIVE: usize = 0;
/// Killed: references are counted in `count`.
const KILLED: usize = 1;
/// Part of `count` until a kill has added the slots' counts, so that `count` cannot reach 0 before.
const BIAS: usize = 1 << 62;

/// A reference count for a long-lived object with many users, modelled on the kernel's
/// `percpu_ref`.
///
/// It starts with one reference. While it is alive, taking and putting one is a transaction on the
/// current slot, and the sum is unknown. [`PerCpuRef::kill`] adds up the slots' counts into one
/// atomic integer and puts the first reference. The thread that puts the last one calls `release`.
///
/// ```
/// # mod sheaves { pub use sheaves_percpu as percpu; }
/// use core::sync::atomic::{AtomicBool, Ordering};
/// use sheaves::percpu::PerCpuRef;
///
/// static CLOSED: AtomicBool = AtomicBool::new(false);
/// static SERVICE: PerCpuRef = PerCpuRef::new(|| CLOSED.store(true, Ordering::Release));
///
/// assert!(SERVICE.try_get_live());
/// // The service ends once the request in progress is finished.
/// assert!(SERVICE.kill()?);
/// assert!(!SERVICE.try_get_live());
/// assert!(!CLOSED.load(Ordering::Acquire));
/// SERVICE.put();
/// assert!(CLOSED.load(Ordering::Acquire));
/// # Ok::<(), sheaves::percpu::KillError>(())
/// ```
///
/// Everything that happened before a put happens before `release`. The first time, getting and
/// putting may sleep on a lock for microseconds. Later they never wait, and are async-signal-safe
/// if `release` is. After a fork, parent and child count separately.
///
/// # Invariants
/// While alive, the number of references is `count` minus the bias, plus the slots' counts. After
/// `kill` has added the slots' counts it is `count`, which, once 0, stays 0 until `reinit`.
///
/// | state | written by | when |
/// |---|---|---|
/// | `mode` | `kill`, `reinit` | alive -> killed -> alive; read inside every transaction |
/// | a slot's count | transactions on that slot | while `mode` is alive; taken by `kill` |
/// | `count` | any thread, by atomics | no slot, or killed |
pub struct PerCpuRef<R: Fn() = fn()> {
    mode: AtomicUsize,
    counts: LazyWord,
    count: AtomicUsize,
    release: R,
}

/// Why a reference count could not be killed. It stays alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KillError {
    /// The other CPUs cannot be fenced: a seccomp filter refuses both `membarrier` and
    /// `sched_setaffinity`, a CPU that was used is no longer permitted, or the program has said
    /// that it enters a sandbox.
    NoFence,
}

/// Why a reference count could not be reinitialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReinitError {
    /// It is not killed.
    Alive,
    /// References are left, or another thread has reinitialised it meanwhile.
    InUse,
}

impl fmt::Display for KillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("other CPUs cannot be fenced")
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
    /// A count with one reference. `release` is called after a kill, when the last reference is
    /// put.
    #[must_use]
    pub const fn new(release: R) -> PerCpuRef<R> {
        PerCpuRef {
            mode: AtomicUsize::new(ALIVE),
            counts: LazyWord::new(),
            count: AtomicUsize::new(BIAS + 1),
            release,
        }
    }

    /// Takes one more reference; the caller has one.
    #[inline]
    pub fn get(&self) {
        // A caller without a reference may be too late; then there is nothing to count.
        let _ = self.try_get();
    }

    /// Takes a reference; false if all have been put after a kill.
    #[inline]
    #[must_use]
    pub fn try_get(&self) -> bool {
        self.change::<1>() == Outcome::Done || self.try_get_slow(false)
    }

    /// Takes a reference; false if the count has been killed. After [`PerCpuRef::kill`] has
    /// returned, this always fails.
    #[inline]
    #[must_use]
    pub fn try_get_live(&self) -> bool {
        self.change::<1>() == Outcome::Done || self.try_get_slow(true)
    }

    /// Puts a reference of the caller. After a kill, the last put calls `release`.
    #[inline]
    pub fn put(&self) {
        if self.change::<-1>() != Outcome::Done {
            self.put_slow();
        }
    }

    /// Switches to counting in one atomic integer, and puts the first reference. False when it is
    /// killed already; `release` may not have been called yet.
    ///
    /// Interrupts the CPUs that run this process once. May sleep.
    ///
    /// # Errors
    /// See [`KillError`]. Then nothing changed.
    pub fn kill(&self) -> Result<bool, KillError> {
        // Before `mode` changes: no thread may create the slots' counts after they were added up.
        let word = self.counts.get().or_else(|| self.counts.make());
        let killing = KILLING.lock();
        // AcqRel: Acquire pairs with the Release in `reinit`; the fence in `close` orders this
        // before every later transaction. Relaxed on failure: nothing is read after it.
        let mode = &self.mode;
        if mode.compare_exchange(ALIVE, KILLED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Ok(false);
        }
        let Some(counted) = word.map_or(Some(0), slots::close) else {
            // Release pairs with the Acquire of guarded additions.
            mode.store(ALIVE, Ordering::Release);
            return Err(KillError::NoFence);
        };
        let gather = |count: usize| {
            let exact = count.wrapping_sub(BIAS).wrapping_add(counted).cast_signed();
            // At least 1, so that more puts than gets cannot make it wrap. Minus 1 puts the first
            // reference.
            exact.max(1).cast_unsigned() - 1
        };
        // AcqRel: Acquire pairs with the Release in `put_slow` of every earlier put, Release
        // with the Acquire there. Relaxed on failure: it cannot fail.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        let before = self.count.fetch_update(set, fetch, |count| Some(gather(count)));
        drop(killing);
        if before.is_ok_and(|count| gather(count) == 0) {
            (self.release)();
        }
        Ok(true)
    }

    /// Starts again with one reference, after the last one has been put.
    ///
    /// # Errors
    /// See [`ReinitError`]. Then nothing changed.
    pub fn reinit(&self) -> Result<(), ReinitError> {
        if !self.is_killed() {
            return Err(ReinitError::Alive);
        }
        let _killing = KILLING.lock();
        // AcqRel: Acquire pairs with the Release of the last `put`, Release with the Acquire of the
        // next `get`. Relaxed on failure: nothing is read after it.
        let begin = BIAS + 1;
        let count = &self.count;
        if count.compare_exchange(0, begin, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Err(ReinitError::InUse);
        }
        if let Some(word) = self.counts.get() {
            slots::reopen(word);
        }
        // Release pairs with the Acquire of guarded additions: the words are open.
        self.mode.store(ALIVE, Ordering::Release);
        Ok(())
    }

    /// True after a kill, until [`PerCpuRef::reinit`].
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

    #[inline(always)]
    fn change<const AMOUNT: i32>(&self) -> Outcome {
        let Some(word) = self.counts.get() else { return Outcome::NoBlock };
        // SAFETY: the word is allocated, so the engine has started.
        let access = unsafe { Access::of_started() };
        transactions::add_guarded::<AMOUNT>(access, &self.mode, word)
    }

    /// [`Self::change`] on any engine. `Declined`: killed; `None`: no slot.
    fn change_slow<const AMOUNT: i32>(&self) -> Option<Outcome> {
        let word = self.counts.get().or_else(|| self.counts.make())?;
        retry(|| slow::add_guarded::<AMOUNT>(&self.mode, word))
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
        // A count above BIAS / 2 has the bias: the kill is not finished.
        let least = if live { BIAS / 2 } else { 1 };
        let increment = |count: usize| (count >= least).then_some(count + 1);
        // Relaxed: as with any reference count, a thread that takes one can already reach the
        // object.
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn put_slow(&self) {
        if !self.is_killed() && self.change_slow::<-1>() == Some(Outcome::Done) {
            return;
        }
        // `count` contains the reference, or will contain it after the kill.
        let decrement = |count: usize| count.checked_sub(1);
        // Release pairs with the Acquire below, of the last put. Relaxed on failure: there was
        // nothing to put.
        let before = self.count.fetch_update(Ordering::Release, Ordering::Relaxed, decrement);
        if before == Ok(1) {
            // Acquire pairs with the Release above, of all puts.
            fence(Ordering::Acquire);
            (self.release)();
        }
    }
}

impl<R: Fn()> Drop for PerCpuRef<R> {
    fn drop(&mut self) {
        // SAFETY: no thread counts any more.
        unsafe { self.counts.free() };
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
