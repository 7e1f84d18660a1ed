//! Read sections that are held across `.await`, in tasks that move between threads.
//!
//! A section of an SRCU domain may sleep, and may end on another thread than it began on: as a
//! task of an asynchronous runtime needs. Run it:
//!
//! ```sh
//! cargo run --release -p sheaves --example across_await
//! ```

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use sheaves::rcu::Srcu;

const TASKS: u64 = 64;
const ROUNDS: u64 = 200;

/// The data that the tasks read. `is_valid` is cleared before a page is freed.
struct Page {
    number: u64,
    is_valid: AtomicU64,
}

struct Shared {
    domain: Srcu,
    page: AtomicPtr<Page>,
    /// Sections that ended on a thread other than the one they began on.
    moved: AtomicU64,
    sections: AtomicU64,
}

impl Shared {
    fn page(number: u64) -> *mut Page {
        Box::into_raw(Box::new(Page { number, is_valid: AtomicU64::new(1) }))
    }

    /// One task: loads a page, awaits inside the section, and continues to read the page.
    async fn read(self: Arc<Shared>) {
        for round in 0..ROUNDS {
            let guard = self.domain.read();
            let began_on = std::thread::current().id();
            // SAFETY: the page is not freed before the section ends, on any thread.
            let page = unsafe { &*self.page.load(Ordering::Acquire) };
            let number = page.number;
            if round % 20 == 0 {
                tokio::time::sleep(Duration::from_micros(50)).await;
            } else {
                tokio::task::yield_now().await;
            }
            assert_eq!(page.is_valid.load(Ordering::Relaxed), 1, "the page was freed");
            assert_eq!(page.number, number);
            let is_moved = std::thread::current().id() != began_on;
            self.moved.fetch_add(u64::from(is_moved), Ordering::Relaxed);
            self.sections.fetch_add(1, Ordering::Relaxed);
            drop(guard);
            tokio::task::yield_now().await;
        }
    }

    /// Replaces the page once; waits for all sections that may read the old one.
    fn replace(&self, number: u64) {
        let old = self.page.swap(Shared::page(number), Ordering::AcqRel);
        self.domain.synchronize();
        // SAFETY: made by `page` and unlinked above; after the grace period no section reads it.
        let old = unsafe { Box::from_raw(old) };
        old.is_valid.store(0, Ordering::Relaxed);
        assert_eq!(old.number + 1, number);
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .expect("a runtime");
    let shared = Arc::new(Shared {
        domain: Srcu::new().expect("per-CPU memory"),
        page: AtomicPtr::new(Shared::page(0)),
        moved: AtomicU64::new(0),
        sections: AtomicU64::new(0),
    });
    let replaced = runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(Arc::clone(&shared).read())).collect();
        let mut replaced = 0;
        // `replace` sleeps, so it must not run on the runtime's own threads.
        while !tasks.iter().all(tokio::task::JoinHandle::is_finished) || replaced < 10 {
            replaced += 1;
            let (shared, number) = (Arc::clone(&shared), replaced);
            tokio::task::spawn_blocking(move || shared.replace(number)).await.expect("replaced");
        }
        for task in tasks {
            task.await.expect("no task has seen a freed page");
        }
        replaced
    });
    let sections = shared.sections.load(Ordering::Relaxed);
    let moved = shared.moved.load(Ordering::Relaxed);
    println!("{sections} sections across .await, during {replaced} replacements of the page");
    println!("{moved} of them ended on another thread than they began on");
    assert_eq!(sections, TASKS * ROUNDS);
    if moved == 0 {
        println!("(on a busy machine the runtime may move none)");
    }
    // SAFETY: the last page; all tasks have ended.
    drop(unsafe { Box::from_raw(shared.page.load(Ordering::Relaxed)) });
}
