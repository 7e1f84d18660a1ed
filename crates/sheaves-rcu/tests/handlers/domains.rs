//! Sections of an SRCU domain, interrupted after every instruction.
//!
//! Waiting for a domain blocks, so another thread waits, and a thread inside a section gives it
//! some time to return too early. A restartable sequence restarts after each interruption, so its
//! places recur: the number of places is limited.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant;

use sheaves_history::srcu;
use sheaves_rcu::Srcu;
use sheaves_sys::futex;

use crate::{alone, set_deadline, steps};

const PLACES_MAX: usize = 200;

/// A domain of the process, of either implementation.
trait Domain: Sync + 'static {
    type Guard: 'static;
    fn get() -> &'static Self;
    fn read(&'static self) -> Self::Guard;
    fn synchronize(&self);
}

macro_rules! domain {
    ($domain:ty, $guard:ty) => {
        impl Domain for $domain {
            type Guard = $guard;

            fn get() -> &'static Self {
                static DOMAIN: OnceLock<$domain> = OnceLock::new();
                DOMAIN.get_or_init(|| <$domain>::new().expect("there is memory"))
            }

            #[inline(always)]
            fn read(&'static self) -> Self::Guard {
                self.read()
            }

            fn synchronize(&self) {
                self.synchronize();
            }
        }
    };
}

domain!(Srcu, sheaves_rcu::SrcuGuard<'static>);
domain!(srcu::Srcu, srcu::SrcuGuard<'static>);

/// Number of requested waits, and of completed ones. [`STOP`] ends the waiting thread.
static ASKED: AtomicU32 = AtomicU32::new(0);
static OVER: AtomicU32 = AtomicU32::new(0);
const STOP: u32 = u32::MAX;
/// How long a wait may take before it counts as one that waits for a reader.
static PATIENCE_MS: AtomicU64 = AtomicU64::new(0);
static IS_WRONG: AtomicBool = AtomicBool::new(false);

/// Makes the other thread wait for the domain; true if the wait ended in time.
fn is_over_soon() -> bool {
    let asked = ASKED.load(Ordering::Relaxed);
    if OVER.load(Ordering::Acquire) != asked {
        // It still waits for the request before.
        return false;
    }
    ASKED.store(asked + 1, Ordering::Release);
    futex::wake_all(&ASKED);
    let limit = Duration::from_millis(PATIENCE_MS.load(Ordering::Relaxed));
    let begin = Instant::now();
    while OVER.load(Ordering::Acquire) != asked + 1 {
        if begin.elapsed() > limit {
            return false;
        }
        futex::wait_for(&OVER, asked, 1_000_000);
    }
    true
}

fn wait_until_over() {
    let asked = ASKED.load(Ordering::Relaxed);
    loop {
        let over = OVER.load(Ordering::Acquire);
        if over == asked {
            return;
        }
        futex::wait_for(&OVER, over, 10_000_000);
    }
}

/// A grace period while the interrupted thread is entering or leaving a section.
fn flip() {
    let _ = is_over_soon();
}

/// A section of the handler, for which the other thread has to wait.
fn hold<D: Domain>() {
    let guard = D::get().read();
    if is_over_soon() {
        IS_WRONG.store(true, Ordering::Relaxed);
    }
    drop(guard);
}

/// Interrupts a section after the given number of instructions. True if there was an interruption.
fn section<D: Domain>(handler: fn(), after: usize) -> bool {
    steps::prepare(handler, after);
    steps::begin();
    let guard = D::get().read();
    // The handler interrupts the begin of a section, or its end if the begin is over.
    let is_inside = steps::was_called();
    if is_inside {
        steps::end();
        if is_over_soon() {
            IS_WRONG.store(true, Ordering::Relaxed);
        }
    }
    drop(guard);
    steps::end();
    wait_until_over();
    steps::was_called()
}

/// Interrupts at each place until something is wrong. Returns the number of places, and if it was.
fn find_wrong<D: Domain>(handler: fn(), patience_ms: u64) -> (usize, bool) {
    let _ = D::get();
    ASKED.store(0, Ordering::Relaxed);
    OVER.store(0, Ordering::Relaxed);
    PATIENCE_MS.store(patience_ms, Ordering::Relaxed);
    IS_WRONG.store(false, Ordering::Relaxed);
    let waiter = move || {
        loop {
            let over = OVER.load(Ordering::Relaxed);
            match ASKED.load(Ordering::Acquire) {
                STOP => return,
                asked if asked == over => futex::wait_for(&ASKED, asked, 10_000_000),
                asked => {
                    D::get().synchronize();
                    OVER.store(asked, Ordering::Release);
                    futex::wake_all(&OVER);
                }
            }
        }
    };
    let mut places = 0;
    std::thread::scope(|scope| {
        scope.spawn(waiter);
        let is_right =
            |after: &usize| section::<D>(handler, *after) && !IS_WRONG.load(Ordering::Relaxed);
        places = (0..PLACES_MAX).take_while(is_right).count();
        ASKED.store(STOP, Ordering::Release);
        futex::wake_all(&ASKED);
    });
    (places, IS_WRONG.load(Ordering::Relaxed))
}

#[test]
fn sections_of_domains_are_waited_for_at_every_instruction() {
    let _alone = alone();
    set_deadline();
    for handler in [flip as fn(), hold::<Srcu>] {
        let (places, is_wrong) = find_wrong::<Srcu>(handler, 2);
        println!("{places} places");
        assert!(!is_wrong && places > 10, "after {places} places");
    }
}

#[test]
fn a_domain_that_drains_one_index_is_found_to_be_broken() {
    let _alone = alone();
    set_deadline();
    let (places, is_wrong) = find_wrong::<srcu::Srcu>(flip, 200);
    assert!(is_wrong, "not found at any of {places} places");
}
