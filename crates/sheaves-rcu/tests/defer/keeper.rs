//! The keeper ticks as long as something is left, and not any more.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;

use sheaves_rcu::internal::keeper::{is_active, period_ms};
use sheaves_rcu::internal::{LayerAbove, arm_keeper, reclaimer_thread, register};
use sheaves_sys::membarrier::Reach;

use crate::{alone, is_own, pass_own, wait_until};

/// Something that takes some ticks to be returned.
struct Unused {
    ticks_left: AtomicUsize,
    ticks: AtomicUsize,
}

static UNUSED: Unused = Unused { ticks_left: AtomicUsize::new(0), ticks: AtomicUsize::new(0) };

impl LayerAbove for Unused {
    fn tick(&self, _reach: Reach) -> bool {
        self.ticks.fetch_add(1, Ordering::SeqCst);
        let less = |left: usize| left.checked_sub(1);
        self.ticks_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn name(&self) -> &'static str {
        "unused"
    }
}

fn ticks() -> usize {
    UNUSED.ticks.load(Ordering::SeqCst)
}

#[test]
fn it_ticks_until_nothing_is_left() {
    let _alone = alone();
    if !is_own() {
        pass_own("keeper::it_ticks_until_nothing_is_left", &[("SHEAVES_DECAY_MS", "100")]);
        return;
    }
    assert_eq!(period_ms(), Some(50));
    assert!(register(&UNUSED));
    for round in 1..3 {
        UNUSED.ticks_left.store(3, Ordering::SeqCst);
        arm_keeper(true);
        assert!(is_active(), "there are several threads");
        wait_until("the last tick", || !is_active());
        assert_eq!(ticks(), 4 * round);
        thread::sleep(Duration::from_millis(300));
        assert_eq!(ticks(), 4 * round, "it ticks although nothing is left");
    }
}

#[test]
fn never_is_never() {
    let _alone = alone();
    if !is_own() {
        pass_own("keeper::never_is_never", &[("SHEAVES_DECAY_MS", "-1")]);
        return;
    }
    assert!(register(&UNUSED));
    arm_keeper(true);
    assert!(!is_active());
    assert_eq!(reclaimer_thread(), None);
}
