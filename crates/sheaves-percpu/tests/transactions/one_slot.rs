//! Keeps a test on one slot, and runs the tests of this program one at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sheaves_percpu::internal::current_slot;
use sheaves_percpu::internal::slots::attach;
use sheaves_sys::topology::{Affinity, possible_cpus};

static ALONE: Mutex<()> = Mutex::new(());

/// One test at a time: a drain detaches every slot for a moment, and then transactions of other
/// tests would fail. That is correct, but their assertions would not hold.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CPUs that the calling thread may run on.
pub(crate) fn processors() -> Vec<usize> {
    let before = Affinity::current().unwrap();
    let bind = |processor: &usize| Affinity::only(*processor).is_some_and(|only| only.bind());
    let found = (0..possible_cpus()).filter(bind).collect();
    assert!(before.bind());
    found
}

/// Binds the calling thread to one CPU until dropped.
pub(crate) struct Bound(Affinity);

impl Bound {
    pub(crate) fn to(processor: usize) -> Bound {
        let before = Affinity::current().unwrap();
        assert!(Affinity::only(processor).unwrap().bind());
        Bound(before)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        assert!(self.0.bind());
    }
}

/// Runs `steps` on an attached thread until it has stayed on one slot from beginning to end.
///
/// Even a thread that is bound to a CPU can get another `mm_cid`. So the steps only collect what
/// they saw, and the caller checks the result.
pub(crate) fn on_one_slot<R>(mut steps: impl FnMut() -> R) -> R {
    let _bound = Bound::to(processors()[0]);
    loop {
        assert!(attach());
        let slot = current_slot();
        let result = steps();
        if current_slot() == slot {
            return result;
        }
    }
}
