//! Threads that get no slot from the kernel: everything works, by atomics on the shared row.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{EngineMode, facts};
use sheaves_percpu::{Counter, PerCpu, PerCpuRef, SlotCell, memory};
use sheaves_sys::errno;

use crate::seccomp;

/// Runs `body` on three threads without a slot. False where such threads are impossible: glibc ends
/// the process when rseq registration fails for a thread after it succeeded for the first one.
fn without_slot(body: impl Fn() + Sync) -> bool {
    behind(&seccomp::program(&[libc::SYS_rseq], libc::EPERM), || {
        assert!(!attach());
        body();
    })
}

/// Runs `body` on three threads behind a filter for `rseq`. False where glibc registers threads.
fn behind(program: &[libc::sock_filter], body: impl Fn() + Sync) -> bool {
    assert!(attach());
    let facts = facts();
    if facts.mode != EngineMode::Rseq || sheaves_sys::tls::libc_rseq_offset().is_some() {
        return false;
    }
    let body = &body;
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            // The filter applies to the thread that installs it and to the threads that it starts.
            if let Err(error) = seccomp::install(program) {
                println!("skipped: filters are not permitted here: {error}");
                return false;
            }
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(body);
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
            number.as_cell().sub(1);
            value.get().fetch_add(1, Ordering::Relaxed);
            // SAFETY: changed by transactions only; allocated until freed below.
            unsafe { handle.cell::<usize>(8) }.add(2);
            assert!(count.try_get_live());
            let own = PerCpu::<SlotCell<u64>>::zeroed().unwrap();
            own.add(7);
            assert_eq!((own.sum(), own.as_cell().load()), (7, 7));
            assert!(own.as_cell().cmp_store(7, 9) && !own.as_cell().cmp_store(7, 10));
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
    assert_eq!(unsafe { handle.cell::<usize>(8) }.sum(), 2000 * bodies as usize);
    // SAFETY: the object is not used any more.
    unsafe { memory::free(handle) }.unwrap();
    (0..1000 * bodies).for_each(|_| count.put());
    assert_eq!(count.kill(), Ok(true));
    assert!(count.is_released());
}

/// Number of calls of `rseq` that [`refuse`] has answered.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Answers a system call that a filter has trapped: `EPERM`.
unsafe extern "C" fn refuse(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    CALLS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the kernel gives handlers the context of what they interrupt.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let result = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
    #[cfg(target_arch = "aarch64")]
    let result = &mut context.uc_mcontext.regs[0];
    *result = -libc::EPERM as _;
}

#[test]
fn a_refusal_is_remembered_and_errno_is_kept() {
    let mut program = seccomp::program(&[libc::SYS_rseq], 0);
    let answer = program.iter_mut().find(|line| line.k == libc::SECCOMP_RET_ERRNO).unwrap();
    answer.k = libc::SECCOMP_RET_TRAP;
    // SAFETY: an all-zero value is valid.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO;
    action.sa_sigaction = refuse as *const () as usize;
    let (action, before) = (&raw const action, core::ptr::null_mut());
    // SAFETY: the handler changes a counter, and the context that it gets.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSYS, action, before) }, 0);
    let counter = Counter::<5>::with_batch();
    let is_run = behind(&program, || {
        for _ in 0..100 {
            errno::set(1234);
            counter.add(1);
            let own = PerCpu::<SlotCell<u64>>::zeroed().unwrap();
            own.add(7);
            assert_eq!(own.sum(), 7);
            assert_eq!(errno::get(), 1234);
        }
    });
    let expected = if is_run { 3 } else { 0 };
    assert_eq!((CALLS.load(Ordering::SeqCst), counter.sum()), (expected, 100 * expected as i64));
}
