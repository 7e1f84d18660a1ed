//! The end of a thread: destructors and signal handlers still use per-CPU memory when libc or this
//! library has ended the registration of rseq. They must not use the slot of another thread.

use core::ffi::c_void;
use core::ptr::without_provenance;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::{PerCpu, SlotCell};

use crate::one_slot::{alone, processors};

/// Rounds of destructors at the end of a thread: `PTHREAD_DESTRUCTOR_ITERATIONS`.
const ROUNDS: usize = 4;
const DURATION: Duration = Duration::from_millis(100);

type Sum = PerCpu<SlotCell<u64>>;

static SUM: AtomicPtr<Sum> = AtomicPtr::new(core::ptr::null_mut());
static KEY: AtomicU32 = AtomicU32::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// How often all threads have added.
static ADDITIONS: AtomicU64 = AtomicU64::new(0);

/// Adds while a condition holds.
fn add_while(condition: impl Fn() -> bool) {
    // SAFETY: the sum is alive until all threads have added.
    let sum = unsafe { &*SUM.load(Ordering::SeqCst) };
    while condition() {
        (0..100).for_each(|_| sum.add(1));
        ADDITIONS.fetch_add(100, Ordering::Relaxed);
    }
}

/// Comes back in each round, and adds in the last one.
unsafe extern "C" fn destroy(round: *mut c_void) {
    if round.addr() == ROUNDS {
        let begin = Instant::now();
        add_while(|| begin.elapsed() < DURATION);
        IS_OVER.store(true, Ordering::SeqCst);
        return;
    }
    let next = without_provenance::<c_void>(round.addr() + 1);
    // SAFETY: the key exists; its value is a number.
    let status = unsafe { libc::pthread_setspecific(KEY.load(Ordering::SeqCst), next) };
    assert_eq!(status, 0);
}

#[test]
fn destructors_of_the_last_round_change_no_other_slot() {
    let _alone = alone();
    let mut sum = Sum::zeroed().unwrap();
    SUM.store(&raw mut sum, Ordering::SeqCst);
    let mut key = 0;
    // SAFETY: the key is valid for writes.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(destroy)) }, 0);
    KEY.store(key, Ordering::SeqCst);
    let ends = thread::spawn(move || {
        let _attached = attach();
        // SAFETY: the key exists; its value is a number.
        let status = unsafe { libc::pthread_setspecific(key, without_provenance::<c_void>(1)) };
        assert_eq!(status, 0);
    });
    // As many as there are CPUs, so that every slot is used.
    thread::scope(|scope| {
        for _ in processors() {
            scope.spawn(|| add_while(|| !IS_OVER.load(Ordering::SeqCst)));
        }
    });
    ends.join().unwrap();
    assert_eq!(sum.sum(), ADDITIONS.load(Ordering::SeqCst));
    // SAFETY: no thread has a value of it.
    assert_eq!(unsafe { libc::pthread_key_delete(key) }, 0);
}
