//! Tests of private items of `lock`.

extern crate std;
use super::*;
use crate::lock::{Lock, assert_none_held};
use core::sync::atomic::AtomicBool;
use core::time::Duration;

#[test]
fn counts_are_exact_under_contention() {
    static LOCK: Lock<u64> = Lock::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    *LOCK.lock() += 1;
                }
            });
        }
    });
    assert_eq!(*LOCK.lock(), 200_000);
}

/// A thread that takes over from another has to wake the next sleeper when it is done: none of them
/// looks again by itself.
#[test]
fn no_sleeper_is_forgotten() {
    const SLEEPERS: usize = 3;
    static WORD: Word = Word::new();
    static ASLEEP: AtomicUsize = AtomicUsize::new(0);
    let (say_done, done) = std::sync::mpsc::channel();
    WORD.acquire(futex::wait);
    for _ in 0..SLEEPERS {
        let say_done = say_done.clone();
        std::thread::spawn(move || {
            WORD.acquire(|word, value| {
                // Relaxed, here and below: a count.
                ASLEEP.fetch_add(1, Ordering::Relaxed);
                futex::wait(word, value);
            });
            // SAFETY: taken above.
            unsafe { WORD.release() };
            say_done.send(())
        });
    }
    while ASLEEP.load(Ordering::Relaxed) < SLEEPERS {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Most of them sleep by then. One that does not yet finds another value.
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: taken above.
    unsafe { WORD.release() };
    for _ in 0..SLEEPERS {
        done.recv_timeout(Duration::from_secs(60)).expect("a sleeper is forgotten");
    }
}

#[test]
fn held_lock_is_not_had_without_waiting() {
    let lock = Lock::new(7);
    let held = lock.try_lock().unwrap();
    assert!(lock.try_lock().is_none());
    drop(held);
    assert_eq!(*lock.try_lock().unwrap(), 7);
}

#[test]
fn a_fork_enters_what_it_holds_and_others_wait() {
    static LOCK: Lock<u64> = Lock::new(1);
    static TRIED: AtomicBool = AtomicBool::new(false);
    static DONE: AtomicBool = AtomicBool::new(false);
    LOCK.acquire();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_held = LOCK.try_lock().is_none();
            // Relaxed: a flag.
            TRIED.store(true, Ordering::Relaxed);
            assert!(is_held);
            *LOCK.lock() *= 10;
            // Release pairs with the Acquire below.
            DONE.store(true, Ordering::Release);
        });
        // Relaxed: a flag.
        while !TRIED.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            *LOCK.lock() += 1;
            *LOCK.try_lock().unwrap() += 1;
            std::thread::yield_now();
        }
        // Acquire pairs with the Release above.
        assert!(LOCK.is_held_for_fork() && !DONE.load(Ordering::Acquire));
        // SAFETY: no guard is alive.
        unsafe { LOCK.release() };
    });
    assert_eq!(*LOCK.lock(), 2010);
}

#[test]
fn a_fork_leaves_alone_what_its_thread_holds() {
    let lock = Lock::new(1);
    let held = lock.lock();
    lock.acquire();
    assert!(!lock.is_held_for_fork() && lock.try_lock().is_none());
    // SAFETY: this does nothing, since the fork does not hold the lock.
    unsafe { lock.release() };
    assert!(lock.try_lock().is_none());
    drop(held);
    assert!(lock.try_lock().is_some());
}

#[test]
fn guards_are_counted() {
    let lock = Lock::new(1);
    assert_none_held();
    let held = lock.lock();
    let has_area = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));
    let are_counted = cfg!(debug_assertions) && has_area;
    assert_eq!(tls::locks(), u8::from(are_counted));
    drop(held);
    assert_none_held();
}

/// A thread of an older generation.
fn orphan(age: usize) -> usize {
    0x1000 | generation::generation().wrapping_sub(age) << GENERATION_SHIFT
}

#[test]
fn what_a_thread_left_that_is_not_here_is_taken_over() {
    for bits in [0, CONTENDED, FORKING, OWNER_DIED, CONTENDED | FORKING] {
        let lock = Lock::new(1);
        lock.word.0.store(orphan(1) | bits, Ordering::Relaxed);
        assert!(!lock.word.is_owned_here() && !lock.word.is_forking());
        let mut held = lock.lock();
        assert!(held.has_owner_died() && lock.try_lock().is_none());
        *held += 1;
        drop(held);
        assert!(!lock.lock().has_owner_died());
        lock.word.0.store(orphan(7) | bits, Ordering::Relaxed);
        assert!(lock.try_lock().is_some_and(|held| held.has_owner_died() && *held == 2));
    }
}

#[test]
fn what_a_thread_of_this_process_holds_is_not_taken_over() {
    let lock = Lock::new(1);
    lock.word.0.store(orphan(0), Ordering::Relaxed);
    assert!(lock.try_lock().is_none() && !lock.word.try_take_over());
    // Not in this generation yet: the number has come round.
    lock.word.0.store(orphan(1 << 16), Ordering::Relaxed);
    assert!(lock.try_lock().is_none());
}

/// In a child of `clone`, which runs no handlers: the lock of another thread is taken over, that of
/// the forking thread stays its own, and a thread of the child with the other's pointer is not it.
#[test]
fn a_child_without_handlers_knows_who_is_there() {
    static OTHERS: Lock<u64> = Lock::new(1);
    static MINE: Lock<u64> = Lock::new(1);
    let (begin, is_held) = std::sync::mpsc::channel();
    let (end, is_over) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let _held = OTHERS.lock();
        begin.send(tls::thread_pointer()).unwrap();
        is_over.recv().unwrap();
    });
    let pointer = is_held.recv().unwrap();
    let mine = MINE.lock();
    let generation = generation::generation();
    // SAFETY: integers only. Where the signal is ignored no process could wait for a child.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let null = core::ptr::null_mut::<u8>();
    // SAFETY: the child has a copy of the stack, and ends below.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, null, null, null, 0) };
    if child == 0 {
        let mut failed = i32::from(!OTHERS.lock().has_owner_died());
        failed |= i32::from(generation::generation() != generation + 1) << 1;
        failed |= i32::from(MINE.try_lock().is_some() || mine.has_owner_died()) << 2;
        drop(mine);
        failed |= i32::from(MINE.try_lock().is_none()) << 3;
        OTHERS.word.0.store(pointer | owner_here() & !OWNER, Ordering::Relaxed);
        failed |= i32::from(OTHERS.try_lock().is_some()) << 4;
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(failed) };
    }
    let mut status = -1;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(i32::try_from(child).unwrap(), &raw mut status, 0) };
    drop(mine);
    end.send(()).unwrap();
    other.join().unwrap();
    assert_eq!((status, generation::generation()), (0, generation));
}
