//! Forks in a program with threads: every layer's handlers run, and the child can allocate.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::BTreeMap;

use sheaves::raw::{Cache, Options};
use sheaves_sys::fork::prepared_count;

const FORKS: usize = 30;
/// More objects than the sheaves of a slot hold.
const HANDLER_BLOCKS: usize = 3000;

/// Number of runs of a fork handler that does not belong to this library.
static HANDLERS_RUN: AtomicUsize = AtomicUsize::new(0);

/// Allocates while the forking thread has all locks: it is registered before the library.
extern "C" fn handler() {
    let lists: Vec<_> = (1..HANDLER_BLOCKS).map(|size| vec![3_u8; size]).collect();
    assert!(lists.iter().zip(1..).all(|(list, size)| list.len() == size && list[size - 1] == 3));
    // Relaxed: a count; the test reads only its own calls.
    HANDLERS_RUN.fetch_add(1, Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array.00101")]
static REGISTER: extern "C" fn() = {
    extern "C" fn constructor() {
        // SAFETY: the handlers are functions of this program.
        unsafe { libc::pthread_atfork(Some(handler), Some(handler), Some(handler)) };
    }
    constructor
};

/// Forks; the child runs `body` and ends with its result, which the parent returns.
fn in_child(body: impl FnOnce() -> bool) -> libc::c_int {
    // SAFETY: the child only allocates, frees and ends, which is what is tested.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: no precondition. A child that hangs is killed.
        unsafe { libc::alarm(60) };
        let code = if body() { 0 } else { 1 };
        // SAFETY: ends the child without the destructors of the test harness.
        unsafe { libc::_exit(code) };
    }
    assert!(process > 0);
    let mut status = -1;
    // SAFETY: the status is valid for the call.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    status
}

/// Allocates in many sizes, and frees what the parent has allocated.
fn use_heap(inherited: Vec<String>) -> bool {
    let map: BTreeMap<usize, Vec<u8>> = (0..2000).map(|n| (n, vec![n as u8; n])).collect();
    let is_whole = map.iter().all(|(n, list)| list.iter().all(|byte| *byte == *n as u8));
    let middle = vec![5_u8; 200_000];
    let large = vec![6_u8; 5 << 20];
    let is_inherited = inherited.iter().all(|text| text == "from the parent");
    is_whole && is_inherited && middle[199_999] == 5 && large[(5 << 20) - 1] == 6
}

#[test]
fn children_of_a_program_with_threads_can_allocate() {
    let stop = AtomicBool::new(false);
    let cache = Cache::new("forked", core::alloc::Layout::new::<[u64; 4]>(), Options::default());
    let cache = cache.unwrap();
    let object = cache.alloc().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let lists: Vec<_> = (0..200).map(|size| vec![1_u8; size * 7]).collect();
                    drop(lists);
                    std::thread::yield_now();
                }
            });
        }
        for _ in 0..FORKS {
            let before = prepared_count();
            let handlers_before = HANDLERS_RUN.load(Ordering::Relaxed);
            let inherited = vec![String::from("from the parent"); 500];
            let status = in_child(|| {
                let second = cache.alloc();
                // SAFETY: this child's copy of the object, from this cache.
                unsafe { cache.free(object) };
                // The handler ran in the parent, before the memory was copied.
                second.is_some() && prepared_count() > before && use_heap(inherited)
            });
            assert_eq!(status, 0, "the child failed or hung");
            assert!(prepared_count() > before, "the handlers did not run");
            assert!(HANDLERS_RUN.load(Ordering::Relaxed) >= handlers_before + 2);
        }
        stop.store(true, Ordering::Relaxed);
    });
    // SAFETY: from this cache.
    unsafe { cache.free(object) };
    assert_eq!(cache.stats().objects_out, 0);
    cache.destroy().unwrap();
}
