//! What a contender of `dispose` is: a way to have an object freed once its readers are gone.

use crate::contenders::deferred_bytes;

/// Bytes of an object.
pub(super) const OBJECT_BYTES: usize = 64;

/// Defers the free of objects.
pub(super) trait Dispose: Send + Sync + 'static {
    /// Whether it tells [`deferred_bytes`] what it frees; otherwise it knows what is deferred.
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
        deferred_bytes::outstanding()
    }

    /// Grace periods so far, where they are counted.
    fn periods(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::{crates, global_list, library, memory};
    use super::*;
    use crate::contenders::allocators::glibc::Glibc;
    use std::sync::Arc;

    /// Defers from two threads, and waits until all is free. A second free of an object would make
    /// the count negative, which ends the test.
    fn check<C: Dispose>(contender: C) {
        const COUNT: usize = 10_000;
        let name = core::any::type_name::<C>();
        let _lock = deferred_bytes::lock();
        let contender = Arc::new(contender);
        assert_eq!(contender.outstanding(), 0, "{name}");
        let defer = |contender: &C| {
            contender.enter_thread();
            if C::COUNTS {
                deferred_bytes::add_deferred(COUNT * OBJECT_BYTES);
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
        let finish = || contender.finish();
        let is_free = deferred_bytes::wait_until_free(|| contender.outstanding(), finish);
        assert!(is_free, "{name} keeps objects");
        contender.leave_thread();
    }

    fn check_crates<M: memory::Memory>() {
        check(crates::Seize::<M>::new());
        check(crates::Haphazard::<M>::new());
        #[cfg(feature = "peers")]
        {
            use super::super::liburcu;
            check(crates::CrossbeamWith::<M>::new());
            check(liburcu::CallRcu::<M>::new());
            check(liburcu::DeferRcu::<M>::new());
        }
    }

    #[test]
    fn what_is_deferred_is_freed_once() {
        check(library::RcuSheaves::new().unwrap());
        check(library::Floor::new().unwrap());
        check(library::Calls::new().unwrap());
        check(library::Without);
        check(global_list::Before::new().unwrap());
        check(crates::Crossbeam);
        check_crates::<Glibc>();
        #[cfg(feature = "peers")]
        check_crates::<crate::contenders::allocators::peers::Mimalloc>();
    }
}
