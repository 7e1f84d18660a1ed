//! What a contender of `dispose` and `bulk` is, a way to have objects freed once their readers are
//! gone, and the course of a sample of both.

use alloc::sync::Arc;
use core::cell::Cell;
use core::time::Duration;
use std::time::Instant;

use super::deferred_bytes;
use crate::harness::{Failure, SpinBarrier, Workers};

pub(crate) trait Deferral: Send + Sync + 'static {
    /// Whether it tells [`deferred_bytes`] what it frees; otherwise it knows what is deferred.
    const COUNTS: bool = true;

    /// Runs on a thread before it defers.
    fn enter_thread(&self) {}

    /// Runs on it when all is free.
    fn leave_thread(&self) {}

    /// Allocates what the table says and defers its free.
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
    fn finish(&self) {
        self.flush_thread();
    }

    /// Bytes that are deferred and not free yet.
    fn outstanding(&self) -> u64 {
        deferred_bytes::outstanding()
    }

    fn periods(&self) -> Option<u64> {
        None
    }
}

/// Grace periods of Sheaves so far: contenders on it share them.
pub(crate) fn grace_periods() -> Option<u64> {
    Some(sheaves_rcu::statistics().grace_periods)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) time: Duration,
    pub(crate) outstanding: u64,
    pub(crate) periods: Option<u64>,
}

/// Runs `work` on all workers, which calls its second argument where all begin together, and waits
/// until all is free. What each has brought, and the end of it.
pub(crate) fn sample<C: Deferral, W: Send + 'static>(
    workers: &Workers,
    contender: &Arc<C>,
    work: impl Fn(&C, &dyn Fn()) -> W + Send + Sync + 'static,
) -> Result<(Vec<W>, Settled), Failure> {
    let barrier = SpinBarrier::new(workers.len());
    let contender = Arc::clone(contender);
    let brought = workers.run(move |index| {
        contender.enter_thread();
        let before = Cell::new(None);
        let worked = work(&contender, &|| {
            barrier.wait();
            before.set(contender.periods());
        });
        barrier.wait();
        let is_first = index == 0;
        let outstanding = if is_first { contender.outstanding() } else { 0 };
        let periods = contender.periods().zip(before.get()).map(|(after, before)| after - before);
        let begin = Instant::now();
        contender.flush_thread();
        barrier.wait();
        let is_settled = !is_first
            || deferred_bytes::wait_until_free(|| contender.outstanding(), || contender.finish());
        let time = begin.elapsed();
        barrier.wait();
        contender.leave_thread();
        is_settled.then_some((worked, Settled { time, outstanding, periods }))
    });
    let (worked, ends): (Vec<_>, Vec<_>) = brought.into_iter().flatten().unzip();
    match ends.first() {
        Some(end) if ends.len() == workers.len() => Ok((worked, *end)),
        _ => Err(Failure::run("a contender does not free what is deferred")),
    }
}
