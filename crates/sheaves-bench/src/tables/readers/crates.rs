//! Readers of other crates and of the standard library, used as their documentation shows.

use core::hint::black_box;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use arc_swap::ArcSwap;
use crossbeam_epoch::{Atomic, Owned};
use seize::Guard;

use super::contenders::{Chain, Node, Read, Section};
use super::root::Root;

pub(super) struct Crossbeam {
    pub(super) root: Atomic<Node>,
}

impl Section for Crossbeam {
    #[inline(always)]
    fn section(&self) {
        drop(crossbeam_epoch::pin());
    }

    #[inline(always)]
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64 {
        let guard = crossbeam_epoch::pin();
        let root = self.root.load(Ordering::Acquire, &guard);
        // SAFETY: never null, and the thread is pinned.
        follow(unsafe { root.deref() })
    }

    fn replace(&self, chain: Chain) {
        let guard = crossbeam_epoch::pin();
        let old = self.root.swap(Owned::from(chain), Ordering::AcqRel, &guard);
        // SAFETY: the chain cannot be reached any more.
        unsafe { guard.defer_destroy(old) };
    }
}

impl Drop for Crossbeam {
    fn drop(&mut self) {
        let root = core::mem::replace(&mut self.root, Atomic::null());
        // SAFETY: nothing else has it, and it is not null.
        drop(unsafe { root.into_owned() });
    }
}

pub(super) struct Seize {
    // Dropped in this order: what the collector still holds, then what was never retired.
    collector: seize::Collector,
    root: Root,
}

impl Seize {
    pub(super) fn new(chain: Chain) -> Seize {
        Seize { collector: seize::Collector::new(), root: Root::new(chain) }
    }
}

impl Section for Seize {
    #[inline(always)]
    fn section(&self) {
        drop(self.collector.enter());
    }

    #[inline(always)]
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64 {
        let guard = self.collector.enter();
        let root = guard.protect(self.root.atomic(), Ordering::Acquire);
        // SAFETY: never null, and protected by the guard.
        follow(unsafe { &*root })
    }

    fn replace(&self, chain: Chain) {
        let guard = self.collector.enter();
        let old = guard.swap(self.root.atomic(), Box::into_raw(chain), Ordering::AcqRel);
        // SAFETY: from a box, and the chain cannot be reached any more.
        unsafe { guard.defer_retire(old, seize::reclaim::boxed) };
    }
}

/// `haphazard`: a hazard pointer, taken once for many reads. It has no sections: the smallest one
/// is to protect the pointer and to give up the protection.
pub(super) struct Haphazard {
    pub(super) root: haphazard::AtomicPtr<Node>,
}

impl Read for Haphazard {
    #[inline(never)]
    fn sections(&self, count: usize) {
        let mut hazard = haphazard::HazardPointer::new();
        for _ in 0..count {
            black_box(self.root.safe_load(&mut hazard));
            hazard.reset_protection();
        }
    }

    #[inline(never)]
    fn loads<const K: usize>(&self, count: usize) -> u64 {
        let mut sum = 0;
        let mut hazard = haphazard::HazardPointer::new();
        for _ in 0..count {
            sum += self.root.safe_load(&mut hazard).map_or(0, Node::follow::<K>);
            hazard.reset_protection();
        }
        sum
    }

    fn replace(&self, chain: Chain) {
        if let Some(old) = self.root.swap(chain) {
            // SAFETY: the chain cannot be reached any more, and all readers are of one domain.
            unsafe { old.retire() };
        }
    }
}

impl Drop for Haphazard {
    fn drop(&mut self) {
        if let Some(root) = NonNull::new(self.root.load_ptr()) {
            // SAFETY: from a box, and nothing has the root any more.
            drop(unsafe { Box::from_raw(root.as_ptr()) });
        }
    }
}

/// `arc-swap`: a load without counting, as long as the thread has room to note it. A section is
/// such a load.
pub(super) struct Swap {
    pub(super) root: ArcSwap<Node>,
}

impl Section for Swap {
    #[inline(always)]
    fn section(&self) {
        drop(black_box(self.root.load()));
    }

    #[inline(always)]
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64 {
        follow(&self.root.load())
    }

    fn replace(&self, chain: Chain) {
        self.root.store(Arc::from(chain));
    }
}

/// `rwlock`: the lock of the standard library. What is replaced is freed under no lock.
pub(super) struct Std {
    pub(super) root: std::sync::RwLock<Chain>,
}

impl Section for Std {
    #[inline(always)]
    fn section(&self) {
        drop(self.root.read().unwrap_or_else(PoisonError::into_inner));
    }

    #[inline(always)]
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64 {
        follow(&self.root.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, chain: Chain) {
        let root = || self.root.write().unwrap_or_else(PoisonError::into_inner);
        let old = core::mem::replace(&mut *root(), chain);
        drop(old);
    }
}

pub(super) struct ParkingLot {
    pub(super) root: parking_lot::RwLock<Chain>,
}

impl Section for ParkingLot {
    #[inline(always)]
    fn section(&self) {
        drop(self.root.read());
    }

    #[inline(always)]
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64 {
        follow(&self.root.read())
    }

    fn replace(&self, chain: Chain) {
        let old = core::mem::replace(&mut *self.root.write(), chain);
        drop(old);
    }
}
