//! Readers of Sheaves: the default domain, a domain of its own, and what the latter cannot beat.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

use sheaves::percpu::memory::Error;
use sheaves::rcu::{self, RcuCell};
use sheaves::{PerCpu, SlotCell, Zeroed, field};

use super::{Chain, Node, Read};
use crate::failure::Failure;

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

/// A pointer to a chain that it owns.
#[derive(Debug)]
pub(crate) struct Root(AtomicPtr<Node>);

impl Root {
    pub(crate) fn new(chain: Chain) -> Root {
        Root(AtomicPtr::new(Box::into_raw(chain)))
    }

    /// The chain that is linked.
    ///
    /// # Safety
    /// The reference is used only while something keeps [`Root::swap`]'s caller from freeing it.
    #[inline(always)]
    pub(crate) unsafe fn load(&self) -> &Node {
        // Acquire: partner is the exchange in `swap`.
        let node = self.0.load(Ordering::Acquire);
        // SAFETY: never null; the rest is the caller's promise.
        unsafe { &*node }
    }

    /// Replaces the chain; the old one may still be read.
    pub(crate) fn swap(&self, chain: Chain) -> NonNull<Node> {
        // Acquire-release: partners are the load above and the exchange before this one.
        let old = self.0.swap(Box::into_raw(chain), Ordering::AcqRel);
        // SAFETY: never null.
        unsafe { NonNull::new_unchecked(old) }
    }

    /// The pointer itself, for those who have loads and exchanges of their own.
    pub(crate) fn atomic(&self) -> &AtomicPtr<Node> {
        &self.0
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: from a box, and nothing has the root any more.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
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
