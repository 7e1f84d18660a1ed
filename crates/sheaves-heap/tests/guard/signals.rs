//! The handler of SIGSEGV among others: of the program, before and after it; on alternate stacks;
//! in children; while threads allocate.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::time::Instant;

use sheaves_heap::{free, malloc};
use sheaves_slab::internal::trap::contains;

use crate::{cases, guard_all, guarded, passed, read, write};

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Calls of the program's handlers.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// What the program's handler has replaced.
static REPLACED: AtomicUsize = AtomicUsize::new(0);

/// Installs a handler, and returns the one before.
fn install(handler: Handler, flags: c_int) -> usize {
    // SAFETY: all zeros are an action.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY: the handlers here are async-signal-safe.
    let status = unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) };
    assert_eq!(status, 0);
    before.sa_sigaction
}

/// Waits until the library's thread has put its handler before one that was installed.
fn wait_for_ours(handler: Handler) {
    let begin = Instant::now();
    loop {
        // Samples have the thread look.
        let _block = freed();
        // SAFETY: all zeros are an action.
        let mut now: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: valid for the call to fill; no action is changed.
        unsafe { libc::sigaction(libc::SIGSEGV, core::ptr::null(), &raw mut now) };
        if now.sa_sigaction != handler as usize {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "the handler stays first");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the process with status 3.
extern "C" fn leaves(_signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: async-signal-safe.
    unsafe { libc::_exit(3) };
}

/// Makes the page accessible: the access succeeds when it is made again.
extern "C" fn opens(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel's.
    let info = unsafe { &*info };
    // SAFETY: SIGSEGV has an address.
    let address = unsafe { info.si_addr() };
    let page = address.wrapping_byte_sub(address.addr() % 4096);
    // Relaxed: counted.
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: a page of the pool, which may be accessible as far as the test is concerned.
    unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) };
}

/// Passes the signal on to the handler that it has replaced.
extern "C" fn passes_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Relaxed, both: written before the signal.
    CALLS.fetch_add(1, Ordering::Relaxed);
    let before = REPLACED.load(Ordering::Relaxed);
    // SAFETY: a handler with three parameters, which `install` has returned.
    let before = unsafe { core::mem::transmute::<usize, Handler>(before) };
    before(signal, info, context);
}

fn freed() -> *mut u8 {
    let block = guarded(300);
    // SAFETY: from this heap; it is used after for the test.
    unsafe { free(block) };
    block
}

#[track_caller]
fn reports(output: &Output, count: usize) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.matches("guard: use after free: ").count(), count, "{output:#?}");
}

fn storm() {
    let seconds = std::env::var("SHEAVES_TEST_SECONDS").map_or(3, |text| text.parse().unwrap());
    let sink = File::options().write(true).open("/dev/null").unwrap();
    // SAFETY: both are open.
    assert_eq!(unsafe { libc::dup2(sink.as_raw_fd(), 2) }, 2);
    install(opens, 0);
    guard_all();
    let (is_over, faults) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let block = malloc(9000);
                    // SAFETY: from this heap; it is used after for the test.
                    unsafe { free(block) };
                    if contains(block.addr()) {
                        faults.fetch_add(1, Ordering::Relaxed);
                        read(block);
                    }
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the child uses the heap, and ends without returning.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    read(freed());
                    // SAFETY: async-signal-safe.
                    unsafe { libc::_exit(0) };
                }
                let mut status = 0;
                // SAFETY: waits for the child.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "in the child");
            }
        });
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{faults:?} uses after free, {CALLS:?} calls of the handler");
    assert!(CALLS.load(Ordering::Relaxed) > 100);
}

cases! {
    the_handler_of_before_is_called [], |output| {
        assert_eq!(output.status.code(), Some(3), "{output:#?}");
        reports(output, 1);
    } => { install(leaves, 0); guard_all(); read(freed()); };

    a_handler_of_later_is_called [], |output| {
        assert_eq!(output.status.code(), Some(3), "{output:#?}");
        reports(output, 1);
    } => {
        guard_all();
        install(leaves, libc::SA_ONSTACK);
        wait_for_ours(leaves);
        read(freed());
    };

    /// The later one calls ours, which must not call it again.
    handlers_may_pass_on [], |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:#?}");
        reports(output, 1);
    } => {
        guard_all();
        REPLACED.store(install(passes_on, 0), Ordering::Relaxed);
        read(freed());
    };

    /// Ours, the later one, ours, and the earlier one, which continues.
    handlers_on_both_sides [], |output| { passed(output); reports(output, 50); } => {
        install(opens, 0);
        guard_all();
        REPLACED.store(install(passes_on, 0), Ordering::Relaxed);
        wait_for_ours(passes_on);
        for round in 1..=50 {
            read(freed());
            assert_eq!(CALLS.load(Ordering::Relaxed), 2 * round);
        }
    };

    /// Faults that are not ours are passed on without a word.
    other_faults_are_passed_on [], |output| {
        assert_eq!(output.status.code(), Some(3), "{output:#?}");
        assert!(output.stderr.is_empty(), "{output:#?}");
    } => { install(leaves, 0); guard_all(); read(core::ptr::without_provenance(4096)); };

    other_faults_end_the_process [], |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:#?}");
        assert!(output.stderr.is_empty(), "{output:#?}");
    } => { guard_all(); read(core::ptr::without_provenance(4096)); };

    a_signal_that_is_sent [], |output| {
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:#?}");
        assert!(output.stderr.is_empty(), "{output:#?}");
    } => {
        // Instead of that of Rust's library, which loses signals that are sent.
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        guard_all();
        // SAFETY: no precondition.
        unsafe { libc::raise(libc::SIGSEGV) };
        unreachable!("the signal ends the process");
    };

    on_an_alternate_stack [], |output| { passed(output); reports(output, 1); } => {
        install(opens, libc::SA_ONSTACK);
        guard_all();
        let mut stack = vec![0xa5_u8; libc::SIGSTKSZ];
        let alternate = libc::stack_t {
            ss_sp: stack.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: stack.len(),
        };
        // SAFETY: the stack is unused, and outlives the thread's use of it.
        assert_eq!(unsafe { libc::sigaltstack(&raw const alternate, null_mut()) }, 0);
        write(freed());
        let used = stack.iter().position(|byte| *byte != 0xa5).map(|free| stack.len() - free);
        println!("the handlers and the kernel's frame use {used:?} bytes");
        assert!(used.is_some_and(|used| used < 7000));
    };

    in_a_child [], |output| {
        assert_eq!(output.status.code(), Some(0), "{output:#?}");
        reports(output, 1);
    } => {
        guard_all();
        let block = freed();
        // SAFETY: the child ends by a signal.
        let child = unsafe { libc::fork() };
        if child == 0 {
            read(block);
        }
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
    };

    a_storm_of_errors [], |output| _ = passed(output) => storm();
}
