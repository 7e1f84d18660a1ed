//! Deferred calls on one list for all threads.
//!
//! **Source.** OSv until 2014 (its tree at 6d68d1ab), `rcu_defer`: one list behind a mutex, and one
//! thread that waits for readers and makes all calls that it finds. It is woken for each call, even
//! while it waits for readers: then it checks the list and continues to wait. Published: 330 ns for
//! an object that is allocated and deferred with one thread and up to 12,000 ns with four; 60 ns
//! and 111 ns with a list for each CPU.
//!
//! **Reproduced.** The list, the thread and its wake-ups. As there, waking a thread that is awake
//! is cheap, and the mutex goes to the thread that has waited for it longest. The grace periods are
//! those of `sheaves-rcu`.

use core::future::Future;
use core::pin::pin;
use core::ptr::NonNull;
use core::task::{Context, Waker};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::{JoinHandle, Thread};

use parking_lot::{Mutex, MutexGuard};
use sheaves_rcu::Cookie;

/// A function and its argument.
type Call<T> = (unsafe fn(NonNull<T>), Pointer<T>);

/// An object that moves to another thread.
struct Pointer<T>(NonNull<T>);

// SAFETY: the caller that queues an object no longer uses it.
unsafe impl<T> Send for Pointer<T> {}

struct List<T> {
    calls: Vec<Call<T>>,
    is_over: bool,
}

struct Shared<T> {
    list: Mutex<List<T>>,
    reclaimer: OnceLock<Thread>,
}

/// The list and its thread, which ends with it.
pub struct GlobalList<T: 'static> {
    shared: Arc<Shared<T>>,
    reclaimer: Option<JoinHandle<()>>,
}

impl<T> core::fmt::Debug for GlobalList<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GlobalList").finish_non_exhaustive()
    }
}

impl<T: 'static> GlobalList<T> {
    /// An empty list.
    ///
    /// # Errors
    /// When its thread cannot be started.
    pub fn start() -> std::io::Result<GlobalList<T>> {
        let list = Mutex::new(List { calls: Vec::new(), is_over: false });
        let shared = Arc::new(Shared { list, reclaimer: OnceLock::new() });
        let own = Arc::clone(&shared);
        let reclaimer = std::thread::Builder::new()
            .name("global-list".to_owned())
            .spawn(move || own.reclaim())?;
        // Empty so far: this is the only place that fills it.
        let _ = shared.reclaimer.set(reclaimer.thread().clone());
        Ok(GlobalList { shared, reclaimer: Some(reclaimer) })
    }

    /// Calls `call` with an object after a grace period.
    ///
    /// # Safety
    /// The caller no longer uses the object, and another thread may make the call.
    #[inline]
    pub unsafe fn defer(&self, object: NonNull<T>, call: unsafe fn(NonNull<T>)) {
        let mut list = self.shared.list.lock();
        list.calls.push((call, Pointer(object)));
        MutexGuard::unlock_fair(list);
        self.shared.wake();
    }
}

/// The waker of a future that a thread awaits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<T> Shared<T> {
    fn reclaim(&self) {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            let mut list = self.list.lock();
            let calls = core::mem::take(&mut list.calls);
            let is_over = list.is_over;
            MutexGuard::unlock_fair(list);
            if calls.is_empty() {
                if is_over {
                    return;
                }
                std::thread::park();
                continue;
            }
            let mut finished = pin!(Cookie::get().finished());
            while finished.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                std::thread::park();
            }
            for (call, object) in calls {
                // SAFETY: a grace period has passed, and the call is that of the object.
                unsafe { call(object.0) };
            }
        }
    }

    fn wake(&self) {
        if let Some(reclaimer) = self.reclaimer.get() {
            reclaimer.unpark();
        }
    }
}

impl<T> Drop for GlobalList<T> {
    fn drop(&mut self) {
        self.shared.list.lock().is_over = true;
        self.shared.wake();
        if let Some(reclaimer) = self.reclaimer.take() {
            // At worst it has ended by a panic, which was printed.
            let _ = reclaimer.join();
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/global_list.rs"]
mod tests;
