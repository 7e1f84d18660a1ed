//! Threads that come and go.

use core::cell::RefCell;

use sheaves_rcu::{Guard, raw, read, statistics, synchronize};

use crate::alone;

/// How many short threads: 100,000 by `SHEAVES_RCU_THREADS`, fewer by default.
fn threads() -> usize {
    std::env::var("SHEAVES_RCU_THREADS").map_or(3_000, |value| value.parse().unwrap())
}

#[test]
fn short_threads_leave_nothing() {
    let _alone = alone();
    std::thread::spawn(|| drop(read())).join().unwrap();
    let before = statistics().records;
    for _ in 0..threads() {
        std::thread::spawn(|| drop(read())).join().unwrap();
    }
    let after = statistics().records;
    assert!(after <= before + 8, "{before} records became {after}");
}

thread_local! {
    static HELD: RefCell<Vec<Guard>> = const { RefCell::new(Vec::new()) };
    static LATE: Late = const { Late };
}

struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        drop(read());
        HELD.try_with(|held| held.borrow_mut().push(read())).unwrap_or(());
    }
}

#[test]
fn destructors_of_thread_local_storage_may_read() {
    let _alone = alone();
    for _ in 0..100 {
        let thread = std::thread::spawn(|| {
            LATE.with(|_| ());
            HELD.with(|held| held.borrow_mut().push(read()));
        });
        thread.join().unwrap();
    }
    synchronize().unwrap();
}

#[test]
fn a_key_of_libc_may_read_in_every_round() {
    let _alone = alone();
    extern "C" fn at_exit(value: *mut libc::c_void) {
        drop(read());
        let rounds = value as usize;
        if rounds > 1 {
            // SAFETY: the key was made below.
            unsafe { libc::pthread_setspecific(key(), (rounds - 1) as *const libc::c_void) };
        }
    }
    fn key() -> libc::pthread_key_t {
        static KEY: std::sync::OnceLock<libc::pthread_key_t> = std::sync::OnceLock::new();
        *KEY.get_or_init(|| {
            let mut key = 0;
            // SAFETY: the key is valid for the call to fill.
            assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(at_exit)) }, 0);
            key
        })
    }
    for _ in 0..100 {
        let thread = std::thread::spawn(|| {
            drop(read());
            // SAFETY: the key exists.
            unsafe { libc::pthread_setspecific(key(), 4 as *const libc::c_void) };
        });
        thread.join().unwrap();
        synchronize().unwrap();
    }
}

#[test]
fn a_thread_that_ends_inside_a_section_is_found() {
    let _alone = alone();
    // Reported on standard error; what counts is that nobody waits for ever.
    std::thread::spawn(raw::lock).join().unwrap();
    synchronize().unwrap();
    // The same by a bare system call, which no destructor survives.
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        raw::lock();
        // SAFETY: ends this thread alone.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        core::ptr::null_mut()
    }
    let mut thread = 0;
    let null = core::ptr::null();
    // SAFETY: the thread takes a null argument, which it ignores.
    let status =
        unsafe { libc::pthread_create(&raw mut thread, null, body, core::ptr::null_mut()) };
    assert_eq!(status, 0);
    // SAFETY: started above. libc joins by the word that the kernel clears.
    unsafe { libc::pthread_join(thread, core::ptr::null_mut()) };
    synchronize().unwrap();
}
