//! The frame of `bulk` and `per-object`, as Linux had it for `kfree_rcu` in 2020: each CPU collects
//! what is deferred on it, under a lock that hardly anybody else ever takes. 20 ms after the first
//! of it came, a thread of that CPU takes all, waits for readers and frees it, while more is
//! collected.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::Instant;

use super::Bulk;
use crate::contender::slot::{Padded, current_cpu, slot_count};
use crate::failure::Failure;
use crate::workload::crew::{self, Wait};

/// How long a CPU collects: `KFREE_DRAIN_JIFFIES` of 2020, a fiftieth of a second.
const DRAIN: Duration = Duration::from_millis(20);

/// How objects are collected, and freed.
pub(super) trait Form: Send + Sync + 'static {
    /// What a CPU has collected, and keeps.
    type State: Default + Send;
    /// What is taken at once, to be freed.
    type Taken;

    /// Allocates a group, and puts each object into what [`Cpus::here`] gives.
    fn repeat(&self, cpus: &Cpus<Self::State>, groups: usize);
    /// Takes all that was collected.
    fn take(state: &mut Self::State) -> Self::Taken;
    /// Frees it; readers are gone.
    fn free(&self, cpu: &Cpu<Self::State>, taken: Self::Taken);
    /// Gives memory that is free back to the system.
    fn trim(&self);
}

/// One CPU.
///
/// | `held` | meaning | left by |
/// |---|---|---|
/// | `false` | free | the exchange in `lock` |
/// | `true` | one thread may use `state` | the store behind it |
#[derive(Debug, Default)]
pub(super) struct Cpu<S> {
    held: AtomicBool,
    state: UnsafeCell<S>,
    /// Something was collected; changes under the lock.
    is_due: AtomicBool,
    /// Somebody waits for all to be free.
    is_urgent: AtomicBool,
}

// SAFETY: `state` is used by one thread at a time, whoever has the lock.
unsafe impl<S: Send> Sync for Cpu<S> {}

impl<S> Cpu<S> {
    /// Does something under the lock.
    #[inline]
    pub(super) fn lock<R>(&self, action: impl FnOnce(&mut S) -> R) -> R {
        let mut wait = Wait::new();
        // Acquire: partner is the store below. Relaxed on failure: nothing is read.
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            wait.turn();
        }
        // SAFETY: under the lock, and the reference ends before it does.
        let result = action(unsafe { &mut *self.state.get() });
        // Release: partner is the exchange above.
        self.held.store(false, Ordering::Release);
        result
    }
}

/// All CPUs, and their threads.
pub(super) struct Cpus<S> {
    cpus: Box<[Padded<Cpu<S>>]>,
    threads: std::sync::OnceLock<Vec<Thread>>,
    is_over: AtomicBool,
}

impl<S> Cpus<S> {
    /// Puts something into the state of this CPU.
    #[inline]
    pub(super) fn here(&self, add: impl FnOnce(&mut S)) {
        let index = current_cpu() & (self.cpus.len() - 1);
        let cpu = &self.cpus[index].0;
        let is_first = cpu.lock(|state| {
            add(state);
            // Relaxed, both: under the lock.
            let is_first = !cpu.is_due.load(Ordering::Relaxed);
            if is_first {
                cpu.is_due.store(true, Ordering::Relaxed);
            }
            is_first
        });
        if is_first {
            self.wake(index);
        }
    }

    #[cold]
    fn wake(&self, index: usize) {
        if let Some(thread) = self.threads.get().and_then(|threads| threads.get(index)) {
            thread.unpark();
        }
    }
}

/// A form with its threads, which end with it.
pub(super) struct Monitored<F: Form> {
    form: Arc<F>,
    cpus: Arc<Cpus<F::State>>,
    threads: Vec<JoinHandle<()>>,
}

impl<F: Form> Monitored<F> {
    pub(super) fn start(form: F) -> Result<Monitored<F>, Failure> {
        let cpus = (0..slot_count()).map(|_| Padded::default()).collect();
        let form = Arc::new(form);
        let cpus = Arc::new(Cpus { cpus, threads: Default::default(), is_over: false.into() });
        let mut threads = Vec::new();
        for index in 0..cpus.cpus.len() {
            let (form, cpus) = (Arc::clone(&form), Arc::clone(&cpus));
            let thread = std::thread::Builder::new()
                .name(format!("bench-drain-{index}"))
                .spawn(move || {
                    crew::pin_to(index);
                    monitor(&*form, &cpus, index);
                })
                .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
            threads.push(thread);
        }
        let handles = threads.iter().map(|thread| thread.thread().clone()).collect();
        // Empty so far: this is the only place that fills it.
        let _ = cpus.threads.set(handles);
        Ok(Monitored { form, cpus, threads })
    }
}

/// What the thread of a CPU does.
fn monitor<F: Form>(form: &F, cpus: &Cpus<F::State>, index: usize) {
    let cpu = &cpus.cpus[index].0;
    // Relaxed: parking orders what is asked before the wake-up.
    let is_over = || cpus.is_over.load(Ordering::Relaxed);
    loop {
        // Relaxed: a hint; what was collected is read under the lock.
        while !cpu.is_due.load(Ordering::Relaxed) {
            if is_over() {
                return;
            }
            std::thread::park();
        }
        let begin = Instant::now();
        // Relaxed: as above.
        while !cpu.is_urgent.swap(false, Ordering::Relaxed) && !is_over() {
            let Some(left) = DRAIN.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
            else {
                break;
            };
            std::thread::park_timeout(left);
        }
        let taken = cpu.lock(|state| {
            // Relaxed: under the lock.
            cpu.is_due.store(false, Ordering::Relaxed);
            F::take(state)
        });
        sheaves_rcu::synchronize().expect("this thread is in no section");
        form.free(cpu, taken);
    }
}

impl<F: Form> Bulk for Monitored<F> {
    fn repeat(&self, groups: usize) {
        self.form.repeat(&self.cpus, groups);
    }

    fn finish(&self) {
        for (index, cpu) in self.cpus.cpus.iter().enumerate() {
            // Relaxed, both: hints for the thread, which the wake-up brings.
            if cpu.0.is_due.load(Ordering::Relaxed) {
                cpu.0.is_urgent.store(true, Ordering::Relaxed);
                self.cpus.wake(index);
            }
        }
        std::thread::yield_now();
    }

    fn trim(&self) {
        self.form.trim();
    }
}

impl<F: Form> Drop for Monitored<F> {
    fn drop(&mut self) {
        // Relaxed: the wake-up brings it.
        self.cpus.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // It has ended by a panic at worst, which was printed.
            let _ = thread.join();
        }
    }
}
