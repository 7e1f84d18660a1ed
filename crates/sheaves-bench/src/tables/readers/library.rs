//! Readers of Sheaves: the default domain, a domain of its own, and what the latter cannot beat.

use core::sync::atomic::{Ordering, compiler_fence};

use sheaves::percpu::memory::Error;
use sheaves::rcu::{self, RcuCell};
use sheaves::{PerCpu, SlotCell, Zeroed, field};

use super::contenders::{Chain, Node, Read, Section};
use super::root::Root;
use crate::harness::Failure;

/// `rcu`: a cell that is read under guards of the default domain. The updater waits each time.
pub(super) struct Rcu {
    root: RcuCell<Node>,
}

impl Rcu {
    #[expect(clippy::boxed_local, reason = "the cell has a box of its own; the nodes stay")]
    pub(super) fn new(chain: Chain) -> Rcu {
        Rcu { root: RcuCell::new(*chain) }
    }
}

impl Section for Rcu {
    #[inline(always)]
    fn section(&self) {
        drop(rcu::read());
    }

    #[inline(always)]
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64 {
        follow(self.root.load(&rcu::read()))
    }

    fn replace(&self, chain: Chain) {
        drop(self.root.swap(chain));
    }
}

/// `srcu`: a domain of its own. The updater waits each time.
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

impl Section for Srcu {
    #[inline(always)]
    fn section(&self) {
        drop(self.domain.read());
    }

    #[inline(always)]
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64 {
        let _guard = self.domain.read();
        // SAFETY: `replace` waits for the guard.
        follow(unsafe { self.root.load() })
    }

    fn replace(&self, chain: Chain) {
        let old = self.root.swap(chain);
        self.domain.synchronize();
        // SAFETY: from a box, and all readers are gone.
        drop(unsafe { Box::from_raw(old.as_ptr()) });
    }
}

#[repr(C, align(32))]
struct Counts {
    entered: SlotCell<u64>,
    left: SlotCell<u64>,
}

// SAFETY: zero is a valid value of every field.
unsafe impl Zeroed for Counts {}

/// `increments`: two transactions and nothing else, which is the floor for `srcu`. Nothing tells
/// when readers are gone: no workload has this contender and an updater.
pub(super) struct Increments(PerCpu<Counts>);

impl Increments {
    pub(super) fn new() -> Result<Increments, Failure> {
        Ok(Increments(PerCpu::zeroed().map_err(no_memory)?))
    }
}

impl Read for Increments {
    #[inline(never)]
    fn sections(&self, count: usize) {
        for _ in 0..count {
            self.0.cell(field!(Counts, entered)).add(1);
            compiler_fence(Ordering::SeqCst);
            self.0.cell(field!(Counts, left)).add(1);
        }
    }

    fn loads<const K: usize>(&self, _count: usize) -> u64 {
        unreachable!("the floor has empty sections")
    }

    fn replace(&self, _chain: Chain) {
        unreachable!("the floor has nothing to replace")
    }
}
