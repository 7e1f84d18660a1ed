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
