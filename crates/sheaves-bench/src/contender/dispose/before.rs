//! `before`: deferred calls as OSv had them until 2014. One list for all, behind a mutex, and one
//! thread, which waits for readers and makes all calls that it has found. It is woken for each
//! call, also while it waits for readers: then it looks, and goes on waiting.
//!
//! As there, waking a thread that is awake is cheap, and the mutex goes to whoever has waited for
//! it longest. Allocator and grace periods are those of the contenders `sheaves` and `after`.

use core::future::Future;
use core::pin::pin;
use core::ptr::NonNull;
use core::task::{Context, Waker};
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::thread::{JoinHandle, Thread};

use parking_lot::{Mutex, MutexGuard};
use sheaves::raw::Cache;
use sheaves_rcu::Cookie;

use super::memory::Object;
use super::{Dispose, ours};
use crate::failure::Failure;

/// What is called, and with what.
type Call = (unsafe fn(NonNull<Object>), Pointer);

/// An object that goes to another thread.
struct Pointer(NonNull<Object>);

// SAFETY: whoever queues an object gives it up.
unsafe impl Send for Pointer {}

#[derive(Default)]
struct List {
    calls: Vec<Call>,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    list: Mutex<List>,
    reclaimer: OnceLock<Thread>,
}

/// The list and its thread, which ends with it.
pub(super) struct GlobalList {
    cache: &'static Cache,
    shared: Arc<Shared>,
    reclaimer: Option<JoinHandle<()>>,
}

impl GlobalList {
    pub(super) fn new() -> Result<GlobalList, Failure> {
        let cache = ours::cache_of_calls()?;
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let reclaimer = std::thread::Builder::new()
            .name("bench-before".to_owned())
            .spawn(move || own.reclaim())
            .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
        // Empty so far: this is the only place that fills it.
        let _ = shared.reclaimer.set(reclaimer.thread().clone());
        Ok(GlobalList { cache, shared, reclaimer: Some(reclaimer) })
    }
}

/// The waker of a future that a thread waits for.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Shared {
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
                // SAFETY: readers are gone, and the call is that of the object.
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

impl Dispose for GlobalList {
    #[inline]
    fn dispose(&self) {
        let object = Pointer(ours::fresh(self.cache));
        let mut list = self.shared.list.lock();
        list.calls.push((ours::free, object));
        MutexGuard::unlock_fair(list);
        self.shared.wake();
    }

    fn finish(&self) {
        std::thread::yield_now();
    }

    fn periods(&self) -> Option<u64> {
        Some(ours::periods())
    }
}

impl Drop for GlobalList {
    fn drop(&mut self) {
        self.shared.list.lock().is_over = true;
        self.shared.wake();
        if let Some(reclaimer) = self.reclaimer.take() {
            // It has ended by a panic at worst, which was printed.
            let _ = reclaimer.join();
        }
    }
}
