//! Options of a Rust program whose global allocator is the heap: read at load, and done at its end.
//!
//! Each test is a process of its own: it runs this program again, for itself.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::process::Output;
use std::thread;

use sheaves::{Cache, Sheaves, rcu};

#[path = "../../sheaves-percpu/tests/transactions/own_process.rs"]
mod own_process;

#[global_allocator]
static HEAP: Sheaves = Sheaves::new();

/// Names the test whose work this process does.
const ROLE: &str = "SHEAVES_TEST_ROLE";

/// True in the process of a test.
fn is_own(test: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|role| role == test)
}

/// Runs the process of a test, which succeeds; returns its output.
fn run_own(test: &str, variables: &[(&str, &str)]) -> Output {
    own_process::pass(test, &[&[(ROLE, test)], variables].concat())
}

unsafe extern "C" {
    static mut environ: *mut *mut libc::c_char;
}

/// A stalled reader was reported.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

fn work() {
    let blocks: Vec<_> = (1..4000_usize).map(|size| vec![1_u8; size]).collect();
    drop((blocks, vec![2_u8; 40 << 20]));
    let cache = Cache::<[u64; 9]>::new("worked").unwrap();
    let objects: Vec<_> = (0..1000).map(|_| cache.insert([3; 9])).collect();
    drop(objects);
    (0..1000).for_each(|number| rcu::defer(move || drop(Box::new(number))));
    drop(rcu::read());
    rcu::synchronize().unwrap();
    rcu::defer::barrier().unwrap();
    sheaves::trim(0);
}

fn fork_and_work() {
    // SAFETY: the child uses the heap, whose handlers have run, and ends.
    match unsafe { libc::fork() } {
        0 => {
            work();
            // SAFETY: no precondition.
            unsafe { libc::_exit(0) };
        }
        child => {
            let mut status = 0;
            // SAFETY: our child; the status is ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
}

#[test]
fn the_environment_may_change_after_load() {
    let test = "the_environment_may_change_after_load";
    if !is_own(test) {
        for engine in ["auto", "portable"] {
            let variables = [("SHEAVES_ENGINE", engine), ("SHEAVES_RCU_STALL_MS", "50")];
            let errors = String::from_utf8(run_own(test, &variables).stderr).unwrap();
            assert!(errors.contains(" has been in an RCU read section for "), "{errors}");
        }
        return;
    }
    // The standard library reads the size of stacks when it starts a thread for the first time.
    thread::spawn(|| ()).join().unwrap();
    let (rights, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which nothing can read.
    let none = unsafe { libc::mmap(null_mut(), 4096, rights, flags, -1, 0) };
    // SAFETY: no thread of this program uses the environment until it is what it was.
    let first = unsafe { environ };
    // SAFETY: as above.
    unsafe { environ = none.cast() };
    work();
    rcu::stall::set_callback(Some(|_| IS_REPORTED.store(true, Ordering::Relaxed)));
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        scope.spawn(|| {
            let _reader = rcu::read();
            while !IS_REPORTED.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
        });
        (0..5).for_each(|_| fork_and_work());
        thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::Relaxed);
    });
    // SAFETY: as above.
    unsafe { environ = first };
}

#[test]
fn statistics_are_printed_and_a_profile_is_written_at_the_end() {
    let test = "statistics_are_printed_and_a_profile_is_written_at_the_end";
    if is_own(test) {
        let cache = Cache::<[u64; 6]>::new("kept").unwrap();
        let cache: &'static Cache<_> = Box::leak(Box::new(cache));
        let objects: Vec<_> = (0..100).map(|_| cache.insert([4; 6])).collect();
        core::mem::forget(objects);
        fork_and_work();
        return;
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("options-profile");
    let _ = std::fs::remove_file(&file);
    let profile = file.to_str().unwrap();
    let variables =
        [("SHEAVES_PROF_FILE", profile), ("SHEAVES_STATS", "1"), ("SHEAVES_PROF", "4096")];
    run_own(test, &variables[..2]);
    assert!(!file.exists(), "a profile that nothing has turned on");
    let text = String::from_utf8(run_own(test, &variables).stderr).unwrap();
    assert_eq!(text.matches("sheaves statistics: pid ").count(), 1, "{text}");
    let kept = text.lines().find(|line| line.starts_with("kept ")).expect("the cache");
    let words: Vec<_> = kept.split_whitespace().collect();
    assert_eq!(words[1..3], ["48", "100"], "{text}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("sheaves heap profile 1\n") && text.contains("\nmaps\n"), "{text}");
}
