//! Deferred callbacks and channels from outside: nothing too early, everything once, on every path.

use core::alloc::GlobalAlloc;
use core::alloc::Layout;
use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::alloc::System;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::Instant;

use sheaves_rcu::defer::{Call, Channel, Head, barrier, call_rcu};
use sheaves_rcu::read;

mod ages;
mod calls;
mod chains;
mod channels;
#[path = "../children/mod.rs"]
mod children;
mod drivers;
#[path = "../../../sheaves-percpu/tests/transactions/configurations.rs"]
mod engines;
mod forks;
mod keeper;
mod ladder;
mod map_count;
#[path = "../../../sheaves-percpu/tests/memory/mappings.rs"]
mod mappings;
mod options;
#[path = "../../../sheaves-percpu/tests/transactions/own_process.rs"]
mod own_process;
#[path = "../../../sheaves-percpu/tests/transactions/seccomp.rs"]
mod seccomp;
mod storm;
mod threads;

#[test]
fn in_every_configuration() {
    // Also with fences in readers, as if membarrier were refused to them; and with one worker per
    // CPU that runs callbacks.
    let options = [("SHEAVES_RCU_FENCES", "1"), ("SHEAVES_RCU_RECLAIMERS", "slots")];
    let children = options.map(|(name, value)| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--skip", "in_every_configuration"]).env(name, value);
        (name, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    engines::run_all(4, false);
    for (name, child) in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the same contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Number of allocations of the calling thread in `body`.
fn allocations_in(body: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

/// Barriers, faults and statistics are global to the process: one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    barrier().unwrap();
    alone
}

/// An object that counts its calls.
#[repr(C)]
struct Object {
    head: Head,
    calls: AtomicUsize,
}

impl Object {
    const fn new() -> Object {
        Object { head: Head::new(), calls: AtomicUsize::new(0) }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Objects that are never freed, so that wrong calls can be counted.
    fn many(count: usize) -> &'static [Object] {
        Box::leak((0..count).map(|_| Object::new()).collect())
    }

    fn defer(&'static self) {
        self.defer_to(count_call);
    }

    fn defer_to(&'static self, call: Call) {
        // SAFETY: the object is never freed, and only shared references to it are used.
        unsafe { call_rcu((&raw const self.head).cast_mut(), call) };
    }
}

/// The object that contains a head.
fn object_of(head: *mut Head) -> &'static Object {
    // SAFETY: the head is the first field of an object that is never freed.
    unsafe { &*head.cast::<Object>() }
}

unsafe extern "C" fn count_call(head: *mut Head) {
    object_of(head).calls.fetch_add(1, Ordering::SeqCst);
}

fn all_called(objects: &[Object], times: usize) -> bool {
    objects.iter().all(|object| object.calls() == times)
}

/// Waits until `has_happened` returns true; panics after a long time.
fn wait_until(what: &str, has_happened: impl Fn() -> bool) {
    assert!(happens_within(Duration::from_secs(60), has_happened), "never happened: {what}");
}

/// Waits until `has_happened` returns true; false if the time is over.
fn happens_within(limit: Duration, has_happened: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !has_happened() {
        if begin.elapsed() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// A thread that is inside a read section until this is dropped.
struct Reader {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Reader {
    fn start() -> Reader {
        let (stop, stopped) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn(move || {
            let _guard = read();
            ready.send(()).unwrap();
            let _ = stopped.recv();
        });
        is_ready.recv().unwrap();
        Reader { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A channel of such objects.
unsafe fn free_object(pointer: *mut u8) {
    // SAFETY: only objects that are never freed are passed to this channel.
    unsafe { &*pointer.cast::<Object>() }.calls.fetch_add(1, Ordering::SeqCst);
}

fn pointer_of(object: &'static Object) -> *mut u8 {
    core::ptr::from_ref(object).cast_mut().cast()
}

fn free_later(channel: &'static Channel, object: &'static Object, bytes: usize) {
    // SAFETY: the object is never freed.
    unsafe { channel.free_later(pointer_of(object), bytes) };
}

/// Tells a test that it runs in its own process.
const OWN: &str = "SHEAVES_TEST_OWN";

fn is_own() -> bool {
    std::env::var_os(OWN).is_some()
}

/// A process that takes longer hangs, and is killed.
const OWN_LIMIT: Duration = Duration::from_secs(120);

/// Runs a test of this program in its own process, with options.
fn run_own(test: &str, options: &[(&str, &str)]) -> Output {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(OWN, "1")
        .envs(options.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let process = child.id().cast_signed();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(OWN_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // SAFETY: a child of this process, which was not waited for yet.
                unsafe { libc::kill(process, libc::SIGKILL) };
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(done);
        output
    })
}

/// The same; panics if the test fails. Returns what it wrote to standard error.
fn pass_own(test: &str, options: &[(&str, &str)]) -> String {
    let output = run_own(test, options);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{text}");
    text
}
