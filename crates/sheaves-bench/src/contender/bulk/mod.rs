//! Contenders of the table `bulk`: ways to free many objects of several sizes once readers are
//! gone, all with the same grace periods.

use core::ptr::NonNull;

use sheaves::raw::Cache;
use sheaves_rcu::defer;

use super::{Kind, ledger, ours};
use crate::failure::{Failure, out_of_memory};
use crate::workload::crew;
use sheaves_history::kfree_rcu::{CLASSES, Form, KfreeRcu, Linked, Pages, Source};

/// Sizes of the objects, in turn, in bytes: those of the kernel's test with `kfree_vary_obj_size`.
pub(crate) const SIZES: [usize; 4] = [32, 48, 80, 112];
/// Bytes of one object of each size.
pub(crate) const GROUP_BYTES: usize = SIZES[0] + SIZES[1] + SIZES[2] + SIZES[3];

/// Defers the free of groups of objects, one of each size.
pub(crate) trait Bulk: Send + Sync + 'static {
    /// Whether it tells the ledger what it frees. Who does not, knows what is deferred itself.
    const COUNTS: bool = true;

    /// Allocates a group and defers the free of each of its objects, `groups` times.
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
        Kind::Bulk => visitor.visit(start::<_, Pages>(Caches(make_caches()?))?),
        Kind::PerObject => visitor.visit(start::<_, Linked>(Caches(make_caches()?))?),
        Kind::PerObjectGlibc => visitor.visit(start::<_, Linked>(Malloc)?),
        _ => return Err(Failure::run(format!("{} defers no groups", kind.name()))),
    })
}

const _: () = assert!(SIZES.len() == CLASSES);

/// Starts the frame of `bulk` and `per-object`.
fn start<S: Source, F: Form>(source: S) -> Result<KfreeRcu<S, F>, Failure> {
    KfreeRcu::start(source, crew::pin_to)
        .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))
}

impl<S: Source + Trim, F: Form> Bulk for KfreeRcu<S, F> {
    fn repeat(&self, groups: usize) {
        self.repeat(groups);
    }

    fn finish(&self) {
        self.hurry();
        std::thread::yield_now();
    }

    fn trim(&self) {
        self.source().trim();
    }
}

/// Gives memory that is free back to the system.
trait Trim {
    fn trim(&self);
}

/// Caches, one for each size.
#[derive(Debug)]
struct Caches([Cache; 4]);

impl Source for Caches {
    #[inline]
    fn allocate(&self, class: usize) -> NonNull<u8> {
        allocate(&self.0[class])
    }

    #[inline]
    unsafe fn free(&self, object: NonNull<u8>, class: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0[class].free(object) };
        ledger::add_freed(SIZES[class]);
    }

    #[inline]
    unsafe fn free_bulk(&self, objects: &[NonNull<u8>], class: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0[class].free_bulk(objects) };
        ledger::add_freed(objects.len() * SIZES[class]);
    }
}

impl Trim for Caches {
    fn trim(&self) {
        trim();
    }
}

/// glibc's malloc.
#[derive(Debug)]
struct Malloc;

impl Source for Malloc {
    #[inline]
    fn allocate(&self, class: usize) -> NonNull<u8> {
        // SAFETY: malloc may be called with any size.
        let object = unsafe { libc::malloc(SIZES[class]) };
        NonNull::new(object.cast()).unwrap_or_else(|| out_of_memory())
    }

    #[inline]
    unsafe fn free(&self, object: NonNull<u8>, class: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(object.as_ptr().cast()) };
        ledger::add_freed(SIZES[class]);
    }

    unsafe fn free_bulk(&self, objects: &[NonNull<u8>], class: usize) {
        for object in objects {
            // SAFETY: the caller's promise.
            unsafe { self.free(*object, class) };
        }
    }
}

impl Trim for Malloc {
    fn trim(&self) {
        // SAFETY: the function has no precondition.
        unsafe { libc::malloc_trim(0) };
    }
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
                // SAFETY: from this cache, and nothing else has its address.
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
