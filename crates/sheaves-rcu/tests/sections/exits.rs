//! Threads that start and end.

use core::cell::RefCell;

use sheaves_rcu::{Guard, raw, read, statistics, synchronize};

use crate::alone;
use crate::configurations::{in_own_process, is_one_of_many};
use crate::forks::in_child;
use crate::leaked::passes;

/// Number of short threads, and that in each of nine configurations.
const THREADS: [usize; 2] = [100_000, 30_000];
/// Bytes by which the process may grow meanwhile; the fewer threads have records of 1.9 million.
const GROWTH_BYTES: usize = 1 << 20;

/// Bytes of memory that this process uses now.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * sheaves_sys::map::page_bytes()
}

/// Starts `count` short threads, two at a time.
fn short_threads(count: usize) {
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        drop(read());
        core::ptr::null_mut()
    }
    for _ in 0..count / 2 {
        let [first, second] = [(); 2].map(|()| {
            let mut thread: libc::pthread_t = 0;
            let (null, argument) = (core::ptr::null(), core::ptr::null_mut());
            // SAFETY: the thread ignores its argument.
            let status = unsafe { libc::pthread_create(&raw mut thread, null, body, argument) };
            assert_eq!(status, 0);
            thread
        });
        for thread in [first, second] {
            // SAFETY: started above, joined once.
            unsafe { libc::pthread_join(thread, core::ptr::null_mut()) };
        }
    }
}

#[test]
fn short_threads_leave_nothing() {
    if in_own_process("exits::short_threads_leave_nothing") {
        return;
    }
    short_threads(1_000);
    let (records, bytes) = (statistics().records, resident_bytes());
    short_threads(THREADS[usize::from(is_one_of_many())]);
    let (records_after, bytes_after) = (statistics().records, resident_bytes());
    println!("records: {records}, then {records_after}; bytes: {bytes}, then {bytes_after}");
    assert!(records_after <= records + 8, "{records} records became {records_after}");
    assert!(bytes_after <= bytes + GROWTH_BYTES, "{bytes} bytes became {bytes_after}");
}

/// Runs `body` in a thread that then ends by a bare system call.
fn vanish_after(body: fn()) {
    extern "C" fn run(body: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the function below; this function waits for the thread.
        unsafe { body.cast::<fn()>().read()() };
        // SAFETY: ends only this thread.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        core::ptr::null_mut()
    }
    let mut thread: libc::pthread_t = 0;
    let (null, argument) = (core::ptr::null(), (&raw const body).cast_mut().cast());
    // SAFETY: the argument is valid until the thread is joined.
    assert_eq!(unsafe { libc::pthread_create(&raw mut thread, null, run, argument) }, 0);
    // SAFETY: started above. libc joins by the word that the kernel clears.
    unsafe { libc::pthread_join(thread, core::ptr::null_mut()) };
}

/// All threads end by a bare system call, which runs no destructor.
#[test]
fn threads_that_vanish_are_found() {
    if in_own_process("exits::threads_that_vanish_are_found") {
        return;
    }
    for _ in 0..5_000 {
        vanish_after(|| drop(read()));
    }
    assert!(statistics().records <= 2 * 1024, "{} records", statistics().records);
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

/// Returns what this process writes to standard error while `body` runs.
fn reports(body: impl FnOnce()) -> String {
    let path = std::env::temp_dir().join(format!("sheaves-reports-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    // SAFETY: integers only.
    let before = unsafe { libc::dup(2) };
    // SAFETY: both are open.
    unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&file), 2) };
    body();
    // SAFETY: both are open.
    unsafe { libc::dup2(before, 2) };
    // SAFETY: opened above.
    unsafe { libc::close(before) };
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    text
}

/// The thread may have given to others what it found, so its section stays open.
#[test]
fn a_thread_that_ends_inside_a_section_is_waited_for() {
    if in_own_process("exits::a_thread_that_ends_inside_a_section_is_waited_for") {
        return;
    }
    let text = reports(|| {
        std::thread::spawn(raw::lock).join().unwrap();
        assert!(!passes());
    });
    assert_eq!(text.matches("has ended inside a read section").count(), 1, "{text}");
    // The child of a fork keeps the section, too.
    assert!(in_child(|| !passes()));
}

#[test]
fn a_thread_that_vanishes_inside_a_section_is_waited_for() {
    if in_own_process("exits::a_thread_that_vanishes_inside_a_section_is_waited_for") {
        return;
    }
    let text = reports(|| {
        vanish_after(raw::lock);
        assert!(!passes());
    });
    assert_eq!(text.matches("has ended inside a read section").count(), 1, "{text}");
    assert!(in_child(|| !passes()));
}
