//! The threads of the workloads that need several: started once, pinned, and reused for every
//! sample, so that neither their start nor a contender's per-thread set-up is ever measured.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use sheaves_sys::topology::Affinity;

use super::{Failure, per_operation};

type Task = Arc<dyn Fn(usize) + Send + Sync>;

/// A fixed set of worker threads.
///
/// Worker `n` is pinned to the n-th CPU that this process may use; with more workers than CPUs they
/// share them in turn. The threads end when the set is dropped, which waits for that: what they
/// have registered with a library is then given back before the process ends.
pub(crate) struct Workers {
    workers: Vec<Sender<Task>>,
    threads: Vec<JoinHandle<()>>,
    finished: Receiver<usize>,
}

thread_local! {
    static SETS: RefCell<Vec<Rc<Workers>>> = const { RefCell::new(Vec::new()) };
}

impl Workers {
    /// The set of that size. All contenders of a process share it, so that they run on the same
    /// threads.
    pub(crate) fn of(size: usize) -> Result<Rc<Workers>, Failure> {
        SETS.with_borrow_mut(|sets| {
            if let Some(workers) = sets.iter().find(|workers| workers.len() == size) {
                return Ok(Rc::clone(workers));
            }
            let workers = Rc::new(Workers::start(size)?);
            sets.push(Rc::clone(&workers));
            Ok(workers)
        })
    }

    fn start(size: usize) -> Result<Workers, Failure> {
        let cpus = allowed_cpus();
        let (finish, finished) = channel();
        let mut workers = Vec::with_capacity(size);
        let mut threads = Vec::with_capacity(size);
        for index in 0..size {
            let (send, tasks) = channel::<Task>();
            let finish = finish.clone();
            let cpu = cpus[index % cpus.len()];
            let thread = std::thread::Builder::new()
                .name(format!("bench-{index}"))
                .spawn(move || {
                    pin_to(cpu);
                    for task in tasks {
                        task(index);
                        // The task may own the contender: it must be gone before the sample ends.
                        drop(task);
                        if finish.send(index).is_err() {
                            return;
                        }
                    }
                })
                .map_err(Failure::no_thread)?;
            workers.push(send);
            threads.push(thread);
        }
        Ok(Workers { workers, threads, finished })
    }

    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Runs `task` on every worker and returns what each brought back, in their order.
    pub(crate) fn run<R, F>(&self, task: F) -> Vec<R>
    where
        R: Send + 'static,
        F: Fn(usize) -> R + Send + Sync + 'static,
    {
        let results: Arc<Mutex<Vec<(usize, R)>>> = Arc::new(Mutex::new(Vec::new()));
        let store = Arc::clone(&results);
        let task: Task = Arc::new(move |index| {
            let result = task(index);
            store.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        });
        for worker in &self.workers {
            // A send fails only after a worker has panicked, which the receive below reports.
            let _ = worker.send(Arc::clone(&task));
        }
        drop(task);
        for _ in &self.workers {
            self.finished.recv().expect("a worker thread ended in the middle of a sample");
        }
        let mut results =
            core::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner));
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

impl Workers {
    /// Nanoseconds that each of `timed` operations takes while all workers are at it, in the mean.
    ///
    /// `prepare` runs on each worker and returns what does a number of operations. `untimed` of
    /// them run before, and as many after: no worker stops while another is still being timed.
    pub(crate) fn time<W: FnMut(usize)>(
        &self,
        untimed: usize,
        timed: usize,
        prepare: impl Fn(usize) -> W + Send + Sync + 'static,
    ) -> f64 {
        let barrier = SpinBarrier::new(self.len());
        let times = self.run(move |index| {
            let mut work = prepare(index);
            work(untimed);
            barrier.wait();
            let start = Instant::now();
            work(timed);
            let time = start.elapsed();
            work(untimed);
            barrier.wait();
            time
        });
        per_operation(times.iter().sum(), timed * self.len())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.workers.clear();
        for thread in self.threads.drain(..) {
            // It has ended by a panic at worst, which was printed.
            let _ = thread.join();
        }
    }
}

/// The CPUs that this process may run on, in ascending order; never empty.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let Some(affinity) = Affinity::current() else { return vec![0] };
    affinity.cpu_ids().collect()
}

/// Pins the calling thread. A refusal is ignored: the figures are then noisier, but not wrong.
pub(crate) fn pin_to(cpu: usize) {
    let _ = Affinity::only(cpu).is_some_and(|cpu| cpu.bind());
}

/// Lets all threads of a workers pass together, any number of times.
///
/// It spins, because a sleeping thread wakes up tens of microseconds late; after a while it lets
/// others run, for sets that are larger than the machine.
pub(crate) struct SpinBarrier {
    size: usize,
    /// How many have come, ever: pass number `n` opens when it reaches `(n + 1) * size`.
    arrived: AtomicUsize,
}

impl SpinBarrier {
    pub(crate) fn new(size: usize) -> SpinBarrier {
        SpinBarrier { size, arrived: AtomicUsize::new(0) }
    }

    pub(crate) fn wait(&self) {
        // Acquire-release: partners are this increment in the other threads and the load below;
        // what each did before the barrier is visible to all behind it.
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let opens_at = (before / self.size + 1) * self.size;
        let mut backoff = Backoff::new();
        // Acquire: partner is the increment of the last to come.
        while self.arrived.load(Ordering::Acquire) < opens_at {
            backoff.pause();
        }
    }
}

/// One waiting loop: spins for a while, then lets other threads run.
pub(crate) struct Backoff {
    turns: u32,
}

impl Backoff {
    const SPINS: u32 = 128;

    #[inline]
    pub(crate) fn new() -> Backoff {
        Backoff { turns: 0 }
    }

    #[inline]
    pub(crate) fn pause(&mut self) {
        if self.turns < Backoff::SPINS {
            self.turns += 1;
            core::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/harness_workers.rs"]
mod tests;
