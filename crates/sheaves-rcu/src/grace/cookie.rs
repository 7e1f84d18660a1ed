//! Polled grace periods: cookies and `synchronize`.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::membarrier::Reach;
use sheaves_sys::report;

use super::expedite::{self, Urgency};
use super::period::{self, GENERATIONS, InsideReader};

/// Grace periods up to this number have been requested.
static REQUESTED: AtomicU64 = AtomicU64::new(0);

/// A snapshot of the grace-period state, as the kernel's `get_state_synchronize_rcu` takes it.
///
/// It *passes* when a grace period has ended that began after the snapshot.
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// use sheaves::rcu::Cookie;
///
/// let cookie = Cookie::start_poll();
/// while !cookie.poll() {
///     // Do something else.
/// }
/// ```
///
/// A number: it may be copied, compared, kept and used in any thread, and in parent and child after
/// a fork. Of two cookies the smaller one passes first. Once it has passed, it has for ever, and
/// everything that readers did in sections from before the snapshot happened before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Cookie(u64);

impl Cookie {
    /// A snapshot, which starts no grace period. Two loads and a fence. Never blocks;
    /// async-signal-safe.
    #[must_use]
    pub fn get() -> Cookie {
        Cookie(period::next())
    }

    /// A snapshot, and a request for its grace period (`start_poll_synchronize_rcu`).
    ///
    /// Many requests share one grace period: it starts at once, or 50 us after the last one began,
    /// if that interrupted the CPUs. Never blocks; async-signal-safe.
    #[must_use]
    pub fn start_poll() -> Cookie {
        let cookie = Cookie::get();
        cookie.start();
        cookie
    }

    /// [`Cookie::start_poll`] with an expedited grace period: it starts at once, and may interrupt
    /// the CPUs that run the process.
    #[must_use]
    pub fn start_poll_expedited() -> Cookie {
        let cookie = Cookie::get();
        cookie.start_expedited();
        cookie
    }

    /// Requests the grace period of this cookie, and advances it as far as that is possible without
    /// waiting. Never blocks; async-signal-safe.
    pub fn start(self) {
        self.advance(Urgency::Normal, Reach::Interrupts);
    }

    /// [`Cookie::start`] with an expedited grace period.
    pub fn start_expedited(self) {
        self.advance(Urgency::Expedited, Reach::Interrupts);
    }

    pub(crate) fn passed() -> Cookie {
        Cookie(GENERATIONS.completed())
    }

    fn advance(self, urgency: Urgency, reach: Reach) -> bool {
        self.request(urgency);
        period::lead_without_waiting(self.0, urgency, reach)
    }

    /// True if the cookie has passed. One load; advances nothing. Async-signal-safe.
    #[inline]
    #[must_use]
    pub fn has_passed(self) -> bool {
        GENERATIONS.is_complete(self.0)
    }

    /// True if the cookie has passed. Otherwise, if its grace period was requested, advances it as
    /// far as that is possible without waiting. Never blocks; async-signal-safe.
    #[inline]
    #[must_use]
    pub fn poll(self) -> bool {
        GENERATIONS.is_complete(self.0) || self.poll_slow()
    }

    #[cold]
    fn poll_slow(self) -> bool {
        self.advance_requested(Reach::Interrupts);
        GENERATIONS.is_complete(self.0)
    }

    /// True if the grace period was requested and lacks a membarrier, as [`start_quietly`] does.
    fn advance_requested(self, reach: Reach) -> bool {
        // Relaxed: a hint; nothing is published through it.
        REQUESTED.load(Ordering::Relaxed) >= self.0
            && period::lead_without_waiting(self.0, expedite::wanted(self.0), reach)
    }

    /// Waits until the cookie passes. Sleeps; not for signal handlers.
    ///
    /// # Errors
    /// [`InsideReader`] if it has not passed and the caller is inside a read section.
    pub fn wait(self) -> Result<(), InsideReader> {
        self.wait_with(Urgency::Normal)
    }

    /// [`Cookie::wait`] with an expedited grace period.
    ///
    /// # Errors
    /// As there.
    pub fn wait_expedited(self) -> Result<(), InsideReader> {
        self.wait_with(Urgency::Expedited)
    }

    fn wait_with(self, urgency: Urgency) -> Result<(), InsideReader> {
        if self.poll() {
            return Ok(());
        }
        period::refuse_inside_reader()?;
        self.refuse_future();
        period::wait_for(self.0, urgency);
        Ok(())
    }

    /// The number, for [`Cookie::from_bits`].
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The cookie of a number from [`Cookie::to_bits`]. A number that no snapshot has returned yet
    /// is a cookie of the future: starting it or waiting for it aborts the process, with a line.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Cookie {
        Cookie(bits)
    }

    /// Aborts the process if this is a cookie of the future.
    fn refuse_future(self) {
        // Without the fence of `next` the number may be an old one.
        if self.0 > GENERATIONS.begun() + 1 && self.0 > GENERATIONS.next() {
            let number = self.0;
            report::die(format_args!(
                "rcu: {number} is a cookie from the future: the last one is {}",
                GENERATIONS.next()
            ));
        }
    }

    /// From now on [`Cookie::poll`] advances the grace period.
    pub(crate) fn request(self, urgency: Urgency) {
        self.refuse_future();
        // Relaxed: a hint; nothing is published through it.
        REQUESTED.fetch_max(self.0, Ordering::Relaxed);
        if urgency == Urgency::Expedited {
            expedite::want_at_once(self.0);
        }
    }
}

/// [`Cookie::start`] or [`Cookie::start_expedited`] without a system call, for threads that
/// allocate, free or defer. True if it lacks a membarrier: see `request_membarrier`.
#[must_use]
pub fn start_quietly(cookie: Cookie, is_expedited: bool) -> bool {
    let urgency = if is_expedited { Urgency::Expedited } else { Urgency::Normal };
    cookie.advance(urgency, Reach::Quiet)
}

/// [`Cookie::poll`] for the same threads; true as there.
#[cold]
#[must_use]
pub fn poll_quietly(cookie: Cookie) -> bool {
    cookie.advance_requested(Reach::Quiet)
}

/// Waits for a grace period: until all read sections that began before this call are over.
///
/// One of the threads that wait leads the grace period; all that come before it begins share it.
/// Takes from less than a microsecond, when no thread reads, to as long as the longest section.
/// Sleeps; not for signal handlers.
///
/// Priority is not inherited: a leader, or a reader in a section, that is preempted delays all
/// waiters. A thread with a real-time policy that shares its CPU with others that read or wait
/// should use [`crate::defer()`].
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// sheaves::rcu::synchronize()?;
/// # Ok::<(), sheaves::rcu::InsideReader>(())
/// ```
///
/// # Errors
/// [`InsideReader`], and a line on standard error, if the caller is inside a read section.
pub fn synchronize() -> Result<(), InsideReader> {
    synchronize_with(Urgency::Normal)
}

/// [`synchronize`] with an expedited grace period: the leader spins longer before it sleeps.
///
/// # Errors
/// As there.
pub fn synchronize_expedited() -> Result<(), InsideReader> {
    synchronize_with(Urgency::Expedited)
}

fn synchronize_with(urgency: Urgency) -> Result<(), InsideReader> {
    period::refuse_inside_reader()?;
    period::wait_for(GENERATIONS.next(), urgency);
    Ok(())
}
