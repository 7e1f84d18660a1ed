//! What a program calls to have everything reclaimed.

use sheaves_sys::options::RCU_AGE_MS;
use sheaves_sys::{fork, report};

use super::store::pressure;
use super::work::bell::{self, FLUSH};
use super::work::watch::{self, CHECK_NS};
use super::work::{domains, driver, reclaimer, requests, round};
use crate::grace::period;
use crate::grace::srcu::Srcu;
use crate::reader::section;

/// How often a barrier polls where there is no reclaimer.
const POLL_NS: u64 = 1_000_000;

/// Why a barrier was refused, or is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BarrierError {
    /// The caller is inside a read section: it would wait for itself.
    InsideReader,
    /// The caller is inside a deferred callback, or a waker that the library's thread calls: it
    /// would wait for itself.
    InsideCall,
    /// A slot could not be reached: the kernel refuses what it permitted at the start.
    Unreachable,
}

impl core::fmt::Display for BarrierError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            BarrierError::InsideReader => {
                "waiting for deferred calls inside a read section would deadlock"
            }
            BarrierError::InsideCall => "waiting for deferred calls inside one of them",
            BarrierError::Unreachable => "not every slot can be reached",
        })
    }
}

impl core::error::Error for BarrierError {}

/// Waits until everything that was deferred before, by any thread, is done (`rcu_barrier`).
///
/// Sleeps until readers have left and callbacks have run, in an expedited grace period. Allocates
/// nothing. Not for signal handlers. Where there is no reclaimer, the callbacks run in the caller.
///
/// # Errors
/// See [`BarrierError`]. The first two are returned at once, after a line on standard error.
pub fn barrier() -> Result<(), BarrierError> {
    refuse_inside()?;
    let number = round::ask();
    if reclaimer::is_running() {
        bell::request(FLUSH);
    }
    // Until it is answered, or no reclaimer is left to answer it.
    while reclaimer::is_running() && !round::is_done_soon(number, CHECK_NS) {
        watch::report_stalled();
    }
    if !round::is_done(number) {
        let driver_role = driver::become_driver();
        // The driver that this thread has waited for may have answered it.
        if !round::is_done(number) {
            round::full(&driver_role, true);
        }
    }
    if round::is_incomplete() { Err(BarrierError::Unreachable) } else { Ok(()) }
}

/// Refuses a wait for callbacks that would deadlock.
fn refuse_inside() -> Result<(), BarrierError> {
    period::refuse_inside_reader().map_err(|_| BarrierError::InsideReader)?;
    // Wakers run in the reclaimer, outside of calls.
    if driver::is_inside_call() || reclaimer::is_reclaimer() {
        report::report(format_args!("rcu: a deferred call or a waker waits for deferred calls"));
        return Err(BarrierError::InsideCall);
    }
    // The thread that would answer may not exist in this child.
    fork::run_pending_handlers();
    Ok(())
}

impl Srcu {
    /// Waits until the callbacks that were deferred to this domain before, by any thread, have run
    /// (`srcu_barrier`).
    ///
    /// Sleeps until readers of the domain have left and callbacks have run. Where there is no
    /// reclaimer, the caller does what [`reclaim`] does. Not for signal handlers. Inside a section
    /// of this domain it never returns if a callback waits for that section, see
    /// [`Srcu::synchronize`].
    ///
    /// # Errors
    /// See [`BarrierError`]. Both are returned at once, after a line on standard error.
    pub fn barrier(&'static self) -> Result<(), BarrierError> {
        refuse_inside()?;
        let target = domains::counts(self).0;
        bell::request(FLUSH);
        loop {
            let wait_ns = if reclaimer::is_running() { CHECK_NS } else { POLL_NS };
            if domains::is_done_soon(self, target, wait_ns) {
                return Ok(());
            }
            if !reclaimer::is_running() {
                reclaim();
            }
            watch::report_stalled();
        }
    }

    /// True if no callback of this domain is pending.
    #[must_use]
    pub fn is_idle(&'static self) -> bool {
        let (deferred, done) = domains::counts(self);
        deferred == done
    }
}

/// Requests that everything is reclaimed as soon as a grace period has passed. Does not wait.
///
/// Wakes the reclaimer, which interrupts the CPUs that run the process; without a reclaimer,
/// [`reclaim`] does the rest. Not for signal handlers.
pub fn flush() {
    if !reclaimer::start_or_report()
        && let Some(driver_role) = driver::try_become_driver()
    {
        round::seal_and_start(&driver_role);
    } else {
        requests::request_and_start(FLUSH);
    }
}

/// Reclaims and calls what is ready, and advances the grace period of the rest. True if something
/// was ready.
///
/// For the main loop of a program without a reclaimer (`SHEAVES_RCU_RECLAIMERS=0`). A few loads
/// when nothing is deferred. Never waits for readers, but the callbacks may block. Does nothing in
/// a read section or a callback, or while another thread reclaims. Not for signal handlers.
pub fn reclaim() -> bool {
    fork::run_pending_handlers();
    let is_idle = pressure::armed_ms().is_none()
        && pressure::sealed()[0] == 0
        && domains::left_ms().is_none();
    if is_idle && !bell::has_requests() || section::is_reading() || driver::is_inside_call() {
        return false;
    }
    let Some(driver_role) = driver::try_become_driver() else { return false };
    let any = round::reclaim(&driver_role);
    if !reclaimer::is_running() {
        let is_due = pressure::age_ms().is_some_and(|age| age >= RCU_AGE_MS.get());
        if bell::take_requests().1 & FLUSH != 0 || is_due {
            round::seal_and_start(&driver_role);
        } else {
            round::poll_grace_period();
        }
    }
    any | round::reclaim(&driver_role)
}
