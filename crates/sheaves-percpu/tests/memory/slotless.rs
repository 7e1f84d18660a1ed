//! Threads that get no slot from the kernel: everything works, by atomics on the shared row.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::internal::slots::{Attached, attach};
use sheaves_percpu::internal::{Mode, facts};
use sheaves_percpu::{Counter, PerCpu, PerCpuRef, SlotCell, memory};

use crate::seccomp;

/// Runs `body` on three threads without a slot. False where such threads are impossible: glibc ends
/// the process when rseq registration fails for a thread after it succeeded for the first one.
fn without_slot(body: impl Fn() + Sync) -> bool {
    assert_eq!(attach(), Attached::Yes);
    let facts = facts();
    if facts.mode != Mode::Rseq || facts.libc_registered {
        return false;
    }
    let program = seccomp::program(&[libc::SYS_rseq], libc::EPERM);
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            // The filter applies to the thread that installs it and to the threads that it starts.
            if let Err(error) = seccomp::install(&program) {
                println!("skipped: filters are not permitted here: {error}");
                return false;
            }
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        assert_eq!(attach(), Attached::No);
                        body();
                    });
                }
            });
            true
        });
        filtered.join().unwrap()
    })
}

#[test]
fn everything_works_without_a_slot() {
    let counter = Counter::<5>::with_batch();
    let number = PerCpu::<SlotCell<i64>>::zeroed().unwrap();
    let value = PerCpu::<AtomicU64>::zeroed().unwrap();
    let handle = memory::alloc(16, 8).unwrap();
    let count = PerCpuRef::new(|| ());
    let body = || {
        for _ in 0..1000 {
            counter.add(3);
            number.sub(1);
            value.get().fetch_add(1, Ordering::Relaxed);
            // SAFETY: changed by transactions only; allocated until freed below.
            unsafe { memory::add(handle, 8, 2) };
            assert!(count.try_get_live());
            let own = PerCpu::<SlotCell<u64>>::zeroed().unwrap();
            own.add(7);
            assert_eq!((own.sum(), own.load()), (7, 7));
            assert!(own.cmp_store(7, 9) && !own.cmp_store(7, 10));
            assert_eq!(own.sum(), 9);
        }
    };
    let slotless = if without_slot(body) { 3 } else { 0 };
    body();
    let bodies = slotless + 1;
    assert_eq!(counter.sum(), 3000 * bodies);
    assert_eq!(number.sum(), -1000 * bodies);
    let sum: u64 = value.iter().map(|slot| slot.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, 1000 * bodies as u64);
    // SAFETY: as above.
    assert_eq!(unsafe { memory::sum(handle, 8) }, 2000 * bodies as usize);
    // SAFETY: the object is not used any more.
    unsafe { memory::free(handle) }.unwrap();
    (0..1000 * bodies).for_each(|_| count.put());
    assert_eq!(count.kill(), Ok(true));
    assert!(count.is_released());
}
