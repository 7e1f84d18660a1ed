//! Readers of Sheaves: the default domain, a domain of its own, and what the latter cannot beat.

use core::sync::atomic::{Ordering, compiler_fence};

use sheaves::percpu::memory::Error;
use sheaves::rcu::{self, RcuCell};
use sheaves::{PerCpu, SlotCell, Zeroed, field};

use super::contenders::{Chain, Node, Read};
use super::root::Root;
use crate::harness::failure::Failure;

/// `rcu`: a cell that is read under guards of the default domain. The updater waits each time.
#[derive(Debug)]
pub(super) struct Rcu {
    root: RcuCell<Node>,
}

impl Rcu {
    #[expect(clippy::boxed_local, reason = "the cell has a box of its own; the nodes stay")]
    pub(super) fn new(chain: Chain) -> Rcu {
        Rcu { root: RcuCell::new(*chain) }
    }
}

impl Read for Rcu {
    #[inline(never)]
    fn sections(&self, count: usize) {
        for _ in 0..count {
            drop(rcu::read());
        }
    }

    #[inline(never)]
    fn loads<const K: usize>(&self, count: usize) -> u64 {
        let mut sum = 0;
        for _ in 0..count {
            let guard = rcu::read();
            sum += self.root.load(&guard).follow::<K>();
        }
        sum
    }

    fn replace(&self, chain: Chain) {
        drop(self.root.swap(chain));
    }
}

/// `srcu`: a domain of its own. The updater waits each time.
#[derive(Debug)]
pub(super) struct Srcu {
    domain: rcu::Srcu,
    root: Root,
}

impl Srcu {
    pub(super) fn new(chain: Chain) -> Result<Srcu, Failure> {
        Ok(Srcu { domain: rcu::Srcu::new().map_err(no_memory)?, root: Root::new(chain) })
    }
}

fn no_memory(error: Error) -> Failure {
    Failure::run(format!("no per-CPU memory: {error:?}"))
}

impl Read for Srcu {
    #[inline(never)]
    fn sections(&self, count: usize) {
        for _ in 0..count {
            drop(self.domain.read());
        }
    }

    #[inline(never)]
    fn loads<const K: usize>(&self, count: usize) -> u64 {
        let mut sum = 0;
        for _ in 0..count {
            let guard = self.domain.read();
            // SAFETY: `replace` waits for the guard.
            sum += unsafe { self.root.load() }.follow::<K>();
            drop(guard);
        }
        sum
    }

    fn replace(&self, chain: Chain) {
        let old = self.root.swap(chain);
        self.domain.synchronize();
        // SAFETY: from a box, and all readers are gone.
        drop(unsafe { Box::from_raw(old.as_ptr()) });
    }
}

/// Two counts of a slot.
#[repr(C, align(32))]
struct Counts {
    entered: SlotCell<u64>,
    left: SlotCell<u64>,
}

// SAFETY: zero is a valid value of every field.
unsafe impl Zeroed for Counts {}

/// `increments`: two transactions and nothing else, which is the floor for `srcu`.
pub(super) struct Increments {
    counts: PerCpu<Counts>,
    root: Root,
}

impl Increments {
    pub(super) fn new(chain: Chain) -> Result<Increments, Failure> {
        let counts = PerCpu::zeroed().map_err(no_memory)?;
        Ok(Increments { counts, root: Root::new(chain) })
    }

    #[inline(always)]
    fn enter(&self) {
        self.counts.cell(field!(Counts, entered)).add(1);
        compiler_fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn leave(&self) {
        compiler_fence(Ordering::SeqCst);
        self.counts.cell(field!(Counts, left)).add(1);
    }
}

impl Read for Increments {
    #[inline(never)]
    fn sections(&self, count: usize) {
        for _ in 0..count {
            self.enter();
            self.leave();
        }
    }

    #[inline(never)]
    fn loads<const K: usize>(&self, count: usize) -> u64 {
        let mut sum = 0;
        for _ in 0..count {
            self.enter();
            // SAFETY: `replace` leaves what was there.
            sum += unsafe { self.root.load() }.follow::<K>();
            self.leave();
        }
        sum
    }

    /// Nothing tells when readers are gone, so nothing is freed: no workload has this contender and
    /// an updater.
    fn replace(&self, chain: Chain) {
        let _ = self.root.swap(chain);
    }
}
