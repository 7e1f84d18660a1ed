//! Callbacks that wait for the readers of a domain, not for all readers: [`Srcu::call`].
//!
//! The domains that have callbacks form a ring. The driver visits them in turn: it advances a
//! domain's grace period as far as that is possible without waiting, and runs what is ready. So the
//! readers of one delay no other, nor anything else that is deferred. While sealed callbacks wait,
//! the reclaimer comes back after an eighth of their age, and after 20 ms at the latest.
//!
//! | a callback | until |
//! |---|---|
//! | has its number, on its domain's list | the driver seals it: in a round, or when calls defer |
//! | is sealed: its number is at most `wanted` | that grace period is over; any leader may end it |
//! | is taken, and runs | the driver takes the next one, or finds none: it is done |
//!
//! In the child of a fork all of this goes on, but a callback that another thread had taken.
//!
//! # Invariants
//! A domain is on the ring exactly while it has callbacks that are not done. Others add it at the
//! end; only the driver moves the first one there, or takes it off. It uses no domain after that.

use core::mem::replace;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::{clock, futex};

use super::calls::{self, CALL_BYTES};
use super::driver::Driver;
use super::watch;
use crate::defer::store::shard::Pending;
use crate::grace::srcu::Srcu;
use crate::grace::stall;
use crate::heads::{Calls, Head};

/// The longest time between two visits of a domain whose readers are in the way.
const PAUSE_MS_MAX: u64 = 20;
/// In place of a time.
const NEVER: u64 = u64::MAX;

pub(crate) static RING: Lock<Ring> = Lock::new(Ring { last: None, domains: 0, heads: 0 });
/// Changes when callbacks are done: barriers sleep on it.
static RAN: AtomicU32 = AtomicU32::new(0);
/// When the driver is to come back, and since when the oldest sealed callback waits, in ms of the
/// clock; [`NEVER`] if there is none. Written by the driver.
static DUE_MS: AtomicU64 = AtomicU64::new(NEVER);
static SINCE_MS: AtomicU64 = AtomicU64::new(NEVER);

pub(crate) struct Ring {
    /// Its `next` is the first one.
    last: Option<&'static Srcu>,
    domains: usize,
    heads: usize,
}

impl Ring {
    fn calls(&mut self, domain: &'static Srcu) -> &mut Calls<Srcu> {
        // SAFETY: the one ring is borrowed mutably, so its lock is held, and this is the only
        // reference.
        unsafe { &mut *domain.calls.get() }
    }

    fn first(&mut self) -> Option<&'static Srcu> {
        self.last.and_then(|last| self.calls(last).next)
    }

    fn link(&mut self, domain: &'static Srcu) {
        let first = self.first().unwrap_or(domain);
        self.calls(domain).next = Some(first);
        if let Some(last) = self.last.replace(domain) {
            self.calls(last).next = Some(domain);
        }
        self.domains += 1;
    }

    fn unlink_first(&mut self, first: &'static Srcu) {
        let second = self.calls(first).next.take();
        self.domains -= 1;
        match self.last {
            Some(last) if self.domains > 0 => self.calls(last).next = second,
            _ => self.last = None,
        }
    }
}

/// Defers a claimed head until the readers of a domain have left.
pub(crate) fn push(domain: &'static Srcu, head: *mut Head) {
    let mut ring = RING.lock();
    if ring.calls(domain).deferred == ring.calls(domain).done {
        ring.link(domain);
    }
    let (number, completed) = domain.numbers();
    let calls = ring.calls(domain);
    // SAFETY: valid, claimed, and on no list.
    unsafe { calls.heads.push(head, CALL_BYTES, number, completed) };
    calls.deferred += 1;
    calls.last = number;
    ring.heads += 1;
}

/// Seals the callbacks of all domains, which are visited next.
pub(crate) fn seal(_: &Driver) {
    let count = RING.lock().domains;
    for _ in 0..count {
        let mut ring = RING.lock();
        let Some(first) = ring.first() else { break };
        ring.last = Some(first);
        let calls = ring.calls(first);
        if calls.wanted < calls.last {
            calls.wanted = calls.last;
            if calls.since_ms == 0 {
                calls.wait_since(clock::coarse_ms());
            }
        }
        // Relaxed: only the driver writes it.
        DUE_MS.store(0, Ordering::Relaxed);
    }
}

/// Visits each domain; true if a callback has run.
pub(crate) fn advance(driver_role: &Driver) -> bool {
    let (mut any, mut pause_ms, mut since_ms) = (false, NEVER, NEVER);
    let count = RING.lock().domains;
    for _ in 0..count {
        let (has_run, waits_since_ms) = visit_first(driver_role);
        any |= has_run;
        if let Some(waits_since_ms) = waits_since_ms {
            since_ms = since_ms.min(waits_since_ms);
            let age_ms = clock::coarse_ms().saturating_sub(waits_since_ms);
            pause_ms = pause_ms.min((age_ms / 8).clamp(1, PAUSE_MS_MAX));
        }
    }
    // Relaxed, both: only the driver writes them.
    DUE_MS.store(clock::coarse_ms().saturating_add(pause_ms), Ordering::Relaxed);
    SINCE_MS.store(since_ms, Ordering::Relaxed);
    any
}

/// Advances the first domain, and runs what is ready: true if something was. Since when it waits
/// for readers, if it does.
fn visit_first(_: &Driver) -> (bool, Option<u64>) {
    let mut ring = RING.lock();
    let Some(domain) = ring.first() else { return (false, None) };
    let wanted = ring.calls(domain).wanted;
    drop(ring);
    let completed = domain.poll(wanted);
    let ready = RING.lock().calls(domain).heads.ready(completed);
    for head in (0..ready).map_while(|_| take(domain, completed)) {
        calls::run(watch::DRIVER, head);
    }
    watch::end(watch::DRIVER);
    let mut ring = RING.lock();
    let calls = ring.calls(domain);
    calls.done = calls.taken;
    let waits = calls.wanted > completed;
    if ready > 0 || !waits {
        calls.wait_since(if waits { clock::coarse_ms() } else { 0 });
    }
    let since_ms = calls.since_ms;
    let age_ns = clock::coarse_ms().saturating_sub(since_ms) * 1_000_000;
    let stall = stall::check_domain(age_ns, || waits && !replace(&mut calls.is_reported, true));
    if calls.heads.is_empty() {
        ring.unlink_first(domain);
    } else {
        ring.last = Some(domain);
    }
    drop(ring);
    if ready > 0 {
        // Relaxed: the lock orders; a barrier that has read it before sleeps no longer.
        RAN.fetch_add(1, Ordering::Relaxed);
        futex::wake_all(&RAN);
    }
    stall::report(stall);
    (ready > 0, waits.then_some(since_ms))
}

/// Takes a callback that is ready. Those that were taken before are done.
fn take(domain: &'static Srcu, completed: u64) -> Option<*mut Head> {
    let mut ring = RING.lock();
    let calls = ring.calls(domain);
    calls.done = calls.taken;
    let (head, _) = calls.heads.pop_ready(completed)?;
    calls.taken += 1;
    ring.heads -= 1;
    Some(head)
}

/// Time until the driver is to visit the domains; `None` if nothing waits.
pub(crate) fn left_ms() -> Option<u64> {
    // Relaxed: only the driver writes it.
    let due_ms = DUE_MS.load(Ordering::Relaxed);
    (due_ms != NEVER).then(|| due_ms.saturating_sub(clock::coarse_ms()))
}

/// Since when the oldest sealed callback waits.
pub(crate) fn since_ms() -> Option<u64> {
    // Relaxed: statistics.
    Some(SINCE_MS.load(Ordering::Relaxed)).filter(|since_ms| *since_ms != NEVER)
}

pub(crate) fn counts(domain: &'static Srcu) -> (u64, u64) {
    let mut ring = RING.lock();
    let calls = ring.calls(domain);
    (calls.deferred, calls.done)
}

/// Waits until as many callbacks of a domain are done, at most for some time; true if they are.
pub(crate) fn is_done_soon(domain: &'static Srcu, target: u64, nanoseconds: u64) -> bool {
    // Relaxed: as in `visit_first`.
    let seen = RAN.load(Ordering::Relaxed);
    let is_done = counts(domain).1 >= target;
    if !is_done {
        futex::wait_for(&RAN, seen, nanoseconds);
    }
    is_done
}

pub(crate) fn pending() -> Pending {
    let heads = RING.lock().heads;
    Pending::new(heads, heads * CALL_BYTES)
}
