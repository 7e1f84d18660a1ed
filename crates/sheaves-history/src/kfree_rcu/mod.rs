//! Objects that are freed after a grace period: linked and freed one by one, or recorded in pages
//! and freed a page at a time.
//!
//! **Source.** Linux, "rcu/tree: Add basic support for kfree_rcu() batching" (2019, [`Linked`]),
//! and "rcu/tree: support kfree_bulk() interface in kfree_rcu()" (2020, [`Pages`]). Published for
//! the latter: 23.98 s instead of 53.57 s on SLAB; on SLUB the same time and 34 % less memory.
//!
//! **Reproduced.** The frame of both. Each CPU collects the objects that are deferred on it, under
//! a lock that other threads hardly ever take. 20 ms after the first object a thread of that CPU
//! takes all of them, waits for a grace period and frees them, while more are collected. The grace
//! periods are those of `sheaves-rcu`, and the allocator is the caller's.

mod linked;
mod pages;

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Instant;

use crate::cpu::{Padded, current_cpu, slot_count};

pub use linked::Linked;
pub use pages::Pages;

/// Number of object sizes of a source.
pub const CLASSES: usize = 4;
/// Time for which a CPU collects: `KFREE_DRAIN_JIFFIES` of 2020, a fiftieth of a second.
const DRAIN: Duration = Duration::from_millis(20);
/// Turns of a waiting loop that only spin.
const SPINS: u32 = 128;

/// An allocator of objects of at least 16 bytes.
pub trait Source: Send + Sync + 'static {
    /// Allocates an object of a class, below [`CLASSES`].
    fn allocate(&self, class: usize) -> NonNull<u8>;

    /// Frees an object.
    ///
    /// # Safety
    /// Of that class, and not used any more.
    unsafe fn free(&self, object: NonNull<u8>, class: usize);

    /// Frees many objects.
    ///
    /// # Safety
    /// As [`Source::free`], each of them.
    unsafe fn free_bulk(&self, objects: &[NonNull<u8>], class: usize);
}

/// The objects that a CPU has collected.
pub trait Form: Default + Send + 'static {
    /// The objects that are taken at once, to be freed.
    type Taken;

    /// Records an object of a class.
    ///
    /// # Safety
    /// It is not used any more, and from the source of [`Form::free`].
    unsafe fn add(&mut self, object: NonNull<u8>, class: usize);

    /// Takes all that was collected.
    fn take(&mut self) -> Self::Taken;

    /// Frees taken objects.
    ///
    /// # Safety
    /// A grace period has passed.
    unsafe fn free<S: Source>(cpu: &Cpu<Self>, source: &S, taken: Self::Taken);
}

/// The state of one CPU.
///
/// | `held` | meaning | left by |
/// |---|---|---|
/// | `false` | free | the exchange in `lock` |
/// | `true` | one thread may use `form` | the store after it |
#[derive(Debug, Default)]
pub struct Cpu<F> {
    held: AtomicBool,
    form: UnsafeCell<F>,
    /// Objects were collected; changes under the lock.
    is_due: AtomicBool,
    /// Another thread waits until all are freed.
    is_urgent: AtomicBool,
}

// SAFETY: one thread at a time, the owner of the lock, uses `form`.
unsafe impl<F: Send> Sync for Cpu<F> {}

impl<F> Cpu<F> {
    /// Calls `action` under the lock.
    #[inline]
    fn lock<R>(&self, action: impl FnOnce(&mut F) -> R) -> R {
        let mut turns = 0;
        // Acquire: partner is the store below. Relaxed on failure: nothing is read.
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            turns += 1;
            if turns <= SPINS { core::hint::spin_loop() } else { std::thread::yield_now() }
        }
        // SAFETY: under the lock, and the reference ends before the lock is released.
        let result = action(unsafe { &mut *self.form.get() });
        // Release: partner is the exchange above.
        self.held.store(false, Ordering::Release);
        result
    }
}

struct Shared<S, F> {
    source: S,
    cpus: Box<[Padded<Cpu<F>>]>,
    threads: OnceLock<Vec<Thread>>,
    is_over: AtomicBool,
}

/// All CPUs and their threads, which end with this.
pub struct KfreeRcu<S, F> {
    shared: Arc<Shared<S, F>>,
    threads: Vec<JoinHandle<()>>,
}

impl<S, F> core::fmt::Debug for KfreeRcu<S, F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KfreeRcu").finish_non_exhaustive()
    }
}

impl<S: Source, F: Form> KfreeRcu<S, F> {
    /// Starts a thread for each CPU, which calls `pin` with its number.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(source: S, pin: fn(usize)) -> std::io::Result<KfreeRcu<S, F>> {
        let cpus = (0..slot_count()).map(|_| Padded::default()).collect();
        let (threads, is_over) = (OnceLock::new(), false.into());
        let shared = Arc::new(Shared { source, cpus, threads, is_over });
        let mut this = KfreeRcu { shared, threads: Vec::new() };
        for index in 0..this.shared.cpus.len() {
            let shared = Arc::clone(&this.shared);
            let thread = std::thread::Builder::new().name(format!("kfree-rcu-{index}"));
            this.threads.push(thread.spawn(move || {
                pin(index);
                shared.monitor(index);
            })?);
        }
        let handles = this.threads.iter().map(|thread| thread.thread().clone()).collect();
        // Empty so far: this is the only place that fills it.
        let _ = this.shared.threads.set(handles);
        Ok(this)
    }

    /// The allocator.
    pub fn source(&self) -> &S {
        &self.shared.source
    }

    /// Allocates an object of each class and defers its free, `groups` times.
    #[inline(never)]
    pub fn repeat(&self, groups: usize) {
        for _ in 0..groups {
            for class in 0..CLASSES {
                let object = self.shared.source.allocate(class);
                // SAFETY: fresh, and not used.
                self.shared.here(|form| unsafe { form.add(object, class) });
            }
        }
    }

    /// Makes the threads free everything soon that was collected so far.
    pub fn hurry(&self) {
        for (index, cpu) in self.shared.cpus.iter().enumerate() {
            // Relaxed, both: hints for the thread; the wake-up orders them.
            if cpu.0.is_due.load(Ordering::Relaxed) {
                cpu.0.is_urgent.store(true, Ordering::Relaxed);
                self.shared.wake(index);
            }
        }
    }
}

impl<S: Source, F: Form> Shared<S, F> {
    /// Calls `add` with the objects that this CPU collects.
    #[inline]
    fn here(&self, add: impl FnOnce(&mut F)) {
        let index = current_cpu() & (self.cpus.len() - 1);
        let cpu = &self.cpus[index].0;
        let is_first = cpu.lock(|form| {
            add(form);
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

    /// The loop of a CPU's thread.
    fn monitor(&self, index: usize) {
        let cpu = &self.cpus[index].0;
        // Relaxed: unparking orders the writes before the wake-up.
        let is_over = || self.is_over.load(Ordering::Relaxed);
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
            let taken = cpu.lock(|form| {
                // Relaxed: under the lock.
                cpu.is_due.store(false, Ordering::Relaxed);
                form.take()
            });
            sheaves_rcu::synchronize().expect("this thread is in no section");
            // SAFETY: what was taken was collected before the grace period, which has passed.
            unsafe { F::free(cpu, &self.source, taken) };
        }
    }
}

impl<S, F> Drop for KfreeRcu<S, F> {
    fn drop(&mut self) {
        // Relaxed: the wake-up orders it.
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // At worst it has ended by a panic, which was printed.
            let _ = thread.join();
        }
    }
}
