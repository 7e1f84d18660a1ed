//! Contenders of the table `bulk`: ways to free many objects of several sizes once readers are
//! gone, all with the same grace periods.

mod blocks;
mod links;
mod monitor;

use core::ptr::NonNull;

use sheaves::raw::Cache;
use sheaves_rcu::defer;

use super::{Kind, ledger, ours};
use crate::failure::{Failure, out_of_memory};
use links::{Caches, Links, Malloc};
use monitor::Monitored;

/// Sizes of the objects, in turn, in bytes: those of the kernel's test with `kfree_vary_obj_size`.
pub(crate) const SIZES: [usize; 4] = [32, 48, 80, 112];
/// Bytes of one object of each size.
pub(crate) const GROUP_BYTES: usize = SIZES[0] + SIZES[1] + SIZES[2] + SIZES[3];

/// Defers the free of groups of objects, one of each size.
pub(crate) trait Bulk: Send + Sync + 'static {
    /// Whether it tells the ledger what it frees. Who does not, knows what is deferred itself.
    const COUNTS: bool = true;

    /// Allocates a group and defers the free of each of its objects, so many times.
    fn repeat(&self, groups: usize);

    /// Sees to it that all is free soon. Runs on one thread, until nothing is outstanding, while
    /// the others do nothing.
    fn finish(&self);

    /// Bytes that are deferred and not free yet.
    fn outstanding(&self) -> u64 {
        ledger::outstanding()
    }

    /// Gives memory that is free back to the system.
    fn trim(&self);
}

/// Whether a contender takes part in the table.
pub(crate) fn takes(kind: Kind) -> bool {
    matches!(kind, Kind::Sheaves | Kind::Bulk | Kind::PerObject | Kind::PerObjectGlibc)
}

/// Receives the contender that [`visit`] made, with its type.
pub(crate) trait Visitor {
    /// What the visit leaves behind.
    type Out;
    /// Called once.
    fn visit<C: Bulk>(self, contender: C) -> Self::Out;
}

/// Makes the contender and hands it to `visitor`.
pub(crate) fn visit<V: Visitor>(kind: Kind, visitor: V) -> Result<V::Out, Failure> {
    Ok(match kind {
        Kind::Sheaves => visitor.visit(RcuSheaves { caches: make_caches()? }),
        Kind::Bulk => visitor.visit(Monitored::start(blocks::Blocks::new(make_caches()?))?),
        Kind::PerObject => visitor.visit(Monitored::start(Links::new(Caches(make_caches()?)))?),
        Kind::PerObjectGlibc => visitor.visit(Monitored::start(Links::new(Malloc))?),
        _ => return Err(Failure::run(format!("{} defers no groups", kind.name()))),
    })
}

/// A cache for each size.
fn make_caches() -> Result<[Cache; 4], Failure> {
    let [first, second, third, fourth] = SIZES;
    let make = |size| ours::make_cache("bulk", size);
    Ok([make(first)?, make(second)?, make(third)?, make(fourth)?])
}

#[inline]
fn allocate(cache: &Cache) -> NonNull<u8> {
    cache.alloc().unwrap_or_else(|| out_of_memory())
}

/// Of all caches: slabs that one cache gives up would be kept for others otherwise.
fn trim() {
    // How much it was is of no interest.
    let _ = sheaves::trim();
}

/// `sheaves`: one push into the slot's rcu sheaf for each object.
#[derive(Debug)]
struct RcuSheaves {
    caches: [Cache; 4],
}

impl Bulk for RcuSheaves {
    const COUNTS: bool = false;

    #[inline(never)]
    fn repeat(&self, groups: usize) {
        for _ in 0..groups {
            for cache in &self.caches {
                // SAFETY: from this cache, and nobody has its address.
                unsafe { cache.free_rcu(allocate(cache)) };
            }
        }
    }

    fn finish(&self) {
        defer::barrier().expect("this thread is in no section and in no call");
    }

    fn outstanding(&self) -> u64 {
        let bytes = |cache: &Cache| cache.stats().objects_deferred * cache.object_bytes();
        self.caches.iter().map(bytes).sum::<usize>() as u64
    }

    fn trim(&self) {
        trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Check(Kind);

    impl Visitor for Check {
        type Out = ();

        fn visit<C: Bulk>(self, contender: C) {
            // More than a page of pointers of each size.
            const GROUPS: usize = 3000;
            let name = self.0.name();
            let _turn = ledger::turn();
            let contender = Arc::new(contender);
            assert_eq!(contender.outstanding(), 0, "{name}");
            let work = |contender: &C| {
                if C::COUNTS {
                    ledger::add_deferred(GROUPS * GROUP_BYTES);
                }
                contender.repeat(GROUPS);
            };
            let other = Arc::clone(&contender);
            let thread = std::thread::spawn(move || work(&other));
            work(&contender);
            thread.join().unwrap();
            let is_settled = ledger::settle(|| contender.outstanding(), || contender.finish());
            assert!(is_settled, "{name} keeps objects");
            contender.trim();
        }
    }

    #[test]
    fn what_is_deferred_is_freed_once() {
        // A second free of an object would make the ledger negative, which ends the test.
        for kind in Kind::ALL.iter().filter(|kind| takes(**kind)) {
            visit(*kind, Check(*kind)).unwrap();
        }
        assert!(visit(Kind::Glibc, Check(Kind::Glibc)).is_err());
    }
}
