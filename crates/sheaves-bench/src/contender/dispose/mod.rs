//! Contenders of the table `dispose`: ways to have an object freed once readers are gone.

mod before;
#[cfg(feature = "peers")]
mod liburcu;
mod memory;
mod others;
mod ours;

use super::glibc::Glibc;
#[cfg(feature = "peers")]
use super::peers::Mimalloc;
use super::{Kind, ledger};
use crate::failure::Failure;

/// Bytes of an object.
pub(crate) const OBJECT_BYTES: usize = 64;

/// Defers the free of objects.
pub(crate) trait Dispose: Send + Sync + 'static {
    /// Whether it tells the ledger what it frees. Who does not, knows what is deferred itself.
    const COUNTS: bool = true;

    /// Runs on a thread before it defers.
    fn enter_thread(&self) {}

    /// Runs on it when all is free.
    fn leave_thread(&self) {}

    /// Allocates an object, writes to it, and defers its free.
    fn dispose(&self);

    /// The same, `count` times.
    #[inline(never)]
    fn repeat(&self, count: usize) {
        for _ in 0..count {
            self.dispose();
        }
    }

    /// Runs on each thread that has deferred, before `finish`.
    fn flush_thread(&self) {}

    /// Sees to it that all is free soon. Runs on one thread, until nothing is outstanding, while
    /// the others do nothing.
    fn finish(&self);

    /// Bytes that are deferred and not free yet.
    fn outstanding(&self) -> u64 {
        ledger::outstanding()
    }

    /// Grace periods so far, where they are counted.
    fn periods(&self) -> Option<u64> {
        None
    }
}

/// Whether a contender takes part in the table.
pub(crate) fn takes(kind: Kind) -> bool {
    match kind {
        Kind::Sheaves
        | Kind::Floor
        | Kind::Before
        | Kind::After
        | Kind::Without
        | Kind::CrossbeamEpoch
        | Kind::Seize
        | Kind::Haphazard => true,
        #[cfg(feature = "peers")]
        Kind::UrcuCall
        | Kind::UrcuDefer
        | Kind::UrcuCallMimalloc
        | Kind::UrcuDeferMimalloc
        | Kind::CrossbeamMimalloc
        | Kind::SeizeMimalloc
        | Kind::HaphazardMimalloc => true,
        _ => false,
    }
}

/// Receives the contender that [`visit`] made, with its type.
pub(crate) trait Visitor {
    /// What the visit leaves behind.
    type Out;
    /// Called once.
    fn visit<C: Dispose>(self, contender: C) -> Self::Out;
}

/// Makes the contender and hands it to `visitor`.
pub(crate) fn visit<V: Visitor>(kind: Kind, visitor: V) -> Result<V::Out, Failure> {
    Ok(match kind {
        Kind::Sheaves => visitor.visit(ours::RcuSheaves::new()?),
        Kind::Floor => visitor.visit(ours::Floor::new()?),
        Kind::Before => visitor.visit(before::Before::new()?),
        Kind::After => visitor.visit(ours::Calls::new()?),
        Kind::Without => visitor.visit(ours::Without),
        Kind::CrossbeamEpoch => visitor.visit(others::Crossbeam),
        Kind::Seize => visitor.visit(others::Seize::<Glibc>::new()),
        Kind::Haphazard => visitor.visit(others::Haphazard::<Glibc>::new()),
        #[cfg(feature = "peers")]
        Kind::CrossbeamMimalloc => visitor.visit(others::CrossbeamWith::<Mimalloc>::new()),
        #[cfg(feature = "peers")]
        Kind::SeizeMimalloc => visitor.visit(others::Seize::<Mimalloc>::new()),
        #[cfg(feature = "peers")]
        Kind::HaphazardMimalloc => visitor.visit(others::Haphazard::<Mimalloc>::new()),
        #[cfg(feature = "peers")]
        Kind::UrcuCall => visitor.visit(liburcu::CallRcu::<Glibc>::new()),
        #[cfg(feature = "peers")]
        Kind::UrcuCallMimalloc => visitor.visit(liburcu::CallRcu::<Mimalloc>::new()),
        #[cfg(feature = "peers")]
        Kind::UrcuDefer => visitor.visit(liburcu::DeferRcu::<Glibc>::new()),
        #[cfg(feature = "peers")]
        Kind::UrcuDeferMimalloc => visitor.visit(liburcu::DeferRcu::<Mimalloc>::new()),
        _ => return Err(Failure::run(format!("{} defers no objects", kind.name()))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Defers from two threads, and waits until all is free.
    struct Check(Kind);

    impl Visitor for Check {
        type Out = ();

        fn visit<C: Dispose>(self, contender: C) {
            const COUNT: usize = 10_000;
            let name = self.0.name();
            let _turn = ledger::turn();
            let contender = Arc::new(contender);
            assert_eq!(contender.outstanding(), 0, "{name}");
            let defer = |contender: &C| {
                contender.enter_thread();
                if C::COUNTS {
                    ledger::add_deferred(COUNT * OBJECT_BYTES);
                }
                contender.repeat(COUNT);
                contender.flush_thread();
            };
            let other = Arc::clone(&contender);
            let thread = std::thread::spawn(move || {
                defer(&other);
                other.leave_thread();
            });
            defer(&contender);
            thread.join().unwrap();
            let is_settled = ledger::settle(|| contender.outstanding(), || contender.finish());
            assert!(is_settled, "{name} keeps objects");
            contender.leave_thread();
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
