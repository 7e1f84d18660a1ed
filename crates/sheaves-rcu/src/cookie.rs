//! Grace periods that are asked about instead of waited for.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::report;

use crate::expedite::{self, Urgency};
use crate::grace::{self, GENERATIONS, InsideReader};
use crate::later::Finished;

/// Grace periods up to this number are wanted by somebody. Raised by whoever asks.
static REQUESTED: AtomicU64 = AtomicU64::new(0);

/// A moment, and the question whether all readers of that moment are gone.
///
/// ```
/// use sheaves_rcu::Cookie;
///
/// let cookie = Cookie::start_poll();
/// while !cookie.poll() {
///     // Do something else.
/// }
/// ```
///
/// A number: it may be copied, compared, kept and used in any thread, also in one that never reads.
/// Once [`Cookie::poll`] has returned true, everything that readers did who had begun before the
/// cookie was made has happened, and it stays true. Of two cookies the smaller is over first.
///
/// After a fork a cookie is valid in parent and child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Cookie(u64);

impl Cookie {
    /// The moment of now. Nothing is started: some grace period that others ask for will do.
    ///
    /// Two loads and a fence. Never blocks; async-signal-safe.
    #[must_use]
    pub fn get() -> Cookie {
        Cookie(grace::next())
    }

    /// The moment of now, for which a grace period is started if it may at this moment.
    ///
    /// Never blocks; async-signal-safe. Paced: many requests share one grace period.
    #[must_use]
    pub fn start_poll() -> Cookie {
        let cookie = Cookie::get();
        cookie.start();
        cookie
    }

    /// As [`Cookie::start_poll`], at once: interrupts all processors that run this process.
    #[must_use]
    pub fn start_poll_expedited() -> Cookie {
        let cookie = Cookie::get();
        cookie.start_expedited();
        cookie
    }

    /// Asks for the grace period of that moment, if it may begin now, and leads it as far as it
    /// goes without waiting. Never blocks; async-signal-safe.
    pub fn start(self) {
        self.request(Urgency::Normal);
        grace::drive(self.0, Urgency::Normal);
    }

    /// [`Cookie::start`], at once: interrupts all processors that run this process.
    pub fn start_expedited(self) {
        self.request(Urgency::Expedited);
        grace::drive(self.0, Urgency::Expedited);
    }

    /// Are all readers of that moment known to be gone? One load; does nothing about it.
    #[inline]
    #[must_use]
    pub fn has_passed(self) -> bool {
        GENERATIONS.is_complete(self.0)
    }

    /// Are all readers of that moment gone?
    ///
    /// If not, and the grace period was asked for, this does what can be done without waiting to
    /// bring it to its end, unless somebody else is about it. Never blocks; async-signal-safe.
    #[inline]
    #[must_use]
    pub fn poll(self) -> bool {
        GENERATIONS.is_complete(self.0) || self.poll_slow()
    }

    #[cold]
    fn poll_slow(self) -> bool {
        // Relaxed: a hint; nothing is published through it.
        if REQUESTED.load(Ordering::Relaxed) < self.0 {
            return false;
        }
        let is_expedited = expedite::is_wanted_at_once(self.0);
        let urgency = if is_expedited { Urgency::Expedited } else { Urgency::Normal };
        grace::drive(self.0, urgency);
        GENERATIONS.is_complete(self.0)
    }

    /// Waits until all readers of that moment are gone. May lead the grace period.
    ///
    /// Sleeps; not for signal handlers.
    ///
    /// # Errors
    /// [`InsideReader`] if they are not gone and the caller reads itself: it would wait for ever.
    pub fn wait(self) -> Result<(), InsideReader> {
        self.wait_with(Urgency::Normal)
    }

    /// [`Cookie::wait`], and never in line behind others.
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
        grace::refuse_inside_reader()?;
        self.refuse_future();
        grace::wait_for(self.0, urgency);
        Ok(())
    }

    /// A future that is ready when all readers of that moment are gone.
    ///
    /// The first one that has to wait starts a thread, which libc allocates for. After a fork the
    /// futures of the thread that forked may be polled and dropped in the child; one that waited
    /// there has to be polled again, since nothing wakes it.
    ///
    /// ```
    /// # async fn replace() {
    /// let cookie = sheaves_rcu::Cookie::get();
    /// cookie.finished().await;
    /// # }
    /// ```
    pub fn finished(self) -> Finished {
        self.request(Urgency::Normal);
        Finished::new(self)
    }

    /// The cookie as a number.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The cookie that a number stands for. One that never came from [`Cookie::to_bits`] stands
    /// for a moment in the past, or in the future. One of the future has not passed; whoever starts
    /// it or waits for it would do so for ever, so that ends the process with a line.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Cookie {
        Cookie(bits)
    }

    /// Ends the process where no cookie of it can have this number yet.
    fn refuse_future(self) {
        if self.0 > GENERATIONS.begun() + 1 {
            self.refuse_future_slow();
        }
    }

    /// With the fence behind which the number of a cookie was read.
    #[cold]
    fn refuse_future_slow(self) {
        let (number, next) = (self.0, GENERATIONS.next());
        if number > next {
            report::die(format_args!(
                "rcu: {number} is a cookie from the future: the last one is {next}"
            ));
        }
    }

    /// Makes [`Cookie::poll`] do its part.
    pub(crate) fn request(self, urgency: Urgency) {
        self.refuse_future();
        // Relaxed: a hint; nothing is published through it.
        REQUESTED.fetch_max(self.0, Ordering::Relaxed);
        if urgency == Urgency::Expedited {
            expedite::want_at_once(self.0);
        }
    }
}

/// Waits until all readers that have begun before this call are gone.
///
/// Whoever calls this leads the grace period if nobody does, and shares it with all who come before
/// it begins. Takes from less than a microsecond, when no thread reads, to as long as the longest
/// reader. Sleeps; not for signal handlers.
///
/// Threads of unequal priority: a leader that loses its processor holds up all who wait, whatever
/// their priority, and so does a reader inside a section. Nothing inherits priority here. Where
/// threads with realtime policies wait for readers, they should not share their processors with
/// others that do, or leave the wait to [`crate::defer()`].
///
/// ```
/// sheaves_rcu::synchronize()?;
/// # Ok::<(), sheaves_rcu::InsideReader>(())
/// ```
///
/// # Errors
/// [`InsideReader`], and a line on standard error, if the caller reads itself: it would wait for
/// ever.
pub fn synchronize() -> Result<(), InsideReader> {
    synchronize_with(Urgency::Normal)
}

/// [`synchronize`] with an expedited grace period: its leader spins longer on a reader that is in
/// the way before it sleeps.
///
/// # Errors
/// As there.
pub fn synchronize_expedited() -> Result<(), InsideReader> {
    synchronize_with(Urgency::Expedited)
}

fn synchronize_with(urgency: Urgency) -> Result<(), InsideReader> {
    grace::refuse_inside_reader()?;
    grace::wait_for(GENERATIONS.next(), urgency);
    Ok(())
}
