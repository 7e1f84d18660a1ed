//! The peers: other allocators, called through their own C functions under their own names.
//!
//! None of them takes the name `malloc`, and none is the global allocator. A sized form is the one
//! in which the caller tells the size again when it frees, where the peer has such a form.
//!
//! A contender is called as its type, in lower case; `-sized` is the sized form.
//!
//! tcmalloc keeps its caches per CPU only where it can register restartable sequences itself, that
//! is in a process that was started with glibc's registration switched off. It runs in two child
//! processes, with per-CPU and with per-thread caches; the better one counts.
//!
//! snmalloc's build turns to a debug build, thirty times slower, when the profile asks for debug
//! information: keep `debug = false` in the profile that measures.

use core::ffi::c_void;
use std::sync::Once;

use super::allocator::{Allocator, Workload};
use super::library::layout_of;
use super::peer::peer;
use crate::harness::{Contender, Failure, Mode};

/// The mode in which glibc leaves restartable sequences to tcmalloc.
const PER_CPU: Mode = Mode { name: "percpu", environment: environment_per_cpu, is_fresh: false };
const PER_THREAD: Mode = Mode { name: "perthread", environment: Vec::new, is_fresh: false };

fn environment_per_cpu() -> Vec<(&'static str, String)> {
    vec![
        ("GLIBC_TUNABLES", tunables(std::env::var("GLIBC_TUNABLES").ok())),
        // Where libc registers no area, Sheaves registers its own, and a thread has but one: this
        // child's belongs to the peer.
        ("SHEAVES_ENGINE", "portable".to_owned()),
    ]
}

fn tunables(inherited: Option<String>) -> String {
    let own = "glibc.pthread.rseq=0";
    match inherited {
        Some(list) if !list.is_empty() => format!("{list}:{own}"),
        _ => own.to_owned(),
    }
}

pub(super) fn contenders<W: Workload>(workload: W) -> Vec<Contender> {
    let mut contenders = vec![
        workload.contender("mimalloc", || Mimalloc),
        workload.contender("mimalloc-sized", || MimallocSized),
        workload.contender("jemalloc", || Jemalloc),
        workload.contender("jemalloc-sized", || JemallocSized),
        workload.contender("snmalloc", || Snmalloc),
        workload.contender("snmalloc-sized", || SnmallocSized),
        workload.contender("rpmalloc", Rpmalloc::new),
    ];
    for mode in [PER_CPU, PER_THREAD] {
        let make = move || check_mode(mode).and_then(|()| workload.sampler(Tcmalloc));
        contenders.push(Contender::new("tcmalloc", make).in_child(mode));
        let make = move || check_mode(mode).and_then(|()| workload.sampler(TcmallocSized));
        contenders.push(Contender::new("tcmalloc-sized", make).in_child(mode));
    }
    contenders
}

peer! {
    Mimalloc,
    |size| libmimalloc_sys::mi_malloc(size),
    |object, _size| libmimalloc_sys::mi_free(object),
    |object, size| libmimalloc_sys::mi_realloc(object, size),
    zeroed |size| libmimalloc_sys::mi_calloc(1, size),
    trim libmimalloc_sys::mi_collect(true),
    statistics mimalloc_statistics()
}

/// Fills a buffer with the statistics as text: there is no call that returns numbers alone.
unsafe fn mimalloc_statistics() -> bool {
    let mut text = [0; 16 << 10];
    // SAFETY: the buffer has that size, and the call may be made at any time.
    let written = unsafe { libmimalloc_sys::mi_stats_get_json(text.len(), text.as_mut_ptr()) };
    !written.is_null()
}

peer! {
    /// mimalloc 3: `mi_malloc` and `mi_free_size`.
    MimallocSized,
    |size| libmimalloc_sys::mi_malloc(size),
    |object, size| libmimalloc_sys::mi_free_size(object, size)
}

peer! {
    Jemalloc,
    |size| tikv_jemalloc_sys::malloc(size),
    |object, _size| tikv_jemalloc_sys::free(object),
    |object, size| tikv_jemalloc_sys::realloc(object, size),
    zeroed |size| tikv_jemalloc_sys::calloc(1, size),
    trim purge_jemalloc(),
    statistics jemalloc_statistics()
}

/// Gives back what this thread caches, and then the free pages of all arenas.
unsafe fn purge_jemalloc() {
    // 4096 is `MALLCTL_ARENAS_ALL`.
    for name in [c"thread.tcache.flush", c"arena.4096.purge"] {
        let none = core::ptr::null_mut();
        // SAFETY: both commands take and return nothing.
        unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), none, none.cast(), none, 0) };
    }
}

/// Brings the statistics up to date, and reads how many bytes are allocated.
unsafe fn jemalloc_statistics() -> usize {
    let (mut epoch, mut allocated) = (1_u64, 0_usize);
    let none = core::ptr::null_mut();
    let (name, value, bytes) = (c"epoch", &raw mut epoch, size_of::<u64>());
    // SAFETY: the command takes 8 bytes.
    unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), none, none.cast(), value.cast(), bytes) };
    let (name, value, mut bytes) = (c"stats.allocated", &raw mut allocated, size_of::<usize>());
    // SAFETY: the command returns a `size_t`.
    unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), value.cast(), &raw mut bytes, none, 0) };
    allocated
}

peer! {
    /// jemalloc 5: `mallocx` and `sdallocx`, without flags.
    JemallocSized,
    |size| tikv_jemalloc_sys::mallocx(size, 0),
    |object, size| tikv_jemalloc_sys::sdallocx(object, size, 0)
}

peer! {
    Snmalloc,
    |size| snmalloc_sys::sn_malloc(size),
    |object, _size| snmalloc_sys::sn_free(object),
    |object, size| snmalloc_sys::sn_realloc(object, size),
    zeroed |size| snmalloc_sys::sn_calloc(1, size),
    statistics snmalloc_statistics()
}

/// Bytes that come from the kernel: it counts nothing else.
unsafe fn snmalloc_statistics() -> [usize; 2] {
    let [mut current, mut peak] = [0; 2];
    // SAFETY: both are written.
    unsafe { snmalloc_sys::sn_rust_statistics(&raw mut current, &raw mut peak) };
    [current, peak]
}

peer! {
    /// snmalloc 0.7: what its Rust crate calls, with size and alignment on both sides.
    SnmallocSized,
    |size| snmalloc_sys::sn_rust_alloc(layout_of(size).align(), size),
    |object, size| snmalloc_sys::sn_rust_dealloc(object, layout_of(size).align(), size)
}

peer! {
    /// tcmalloc: `malloc` and `free`, under its internal names.
    Tcmalloc,
    |size| TCMallocInternalMalloc(size),
    |object, _size| TCMallocInternalFree(object),
    |object, size| TCMallocInternalRealloc(object, size),
    zeroed |size| TCMallocInternalCalloc(1, size),
    trim MallocExtension_Internal_ReleaseMemoryToSystem(usize::MAX / 2),
    statistics TCMallocInternalMallInfo2()
}

peer! {
    /// tcmalloc: `operator new` and the sized `operator delete`, under its internal names.
    TcmallocSized,
    |size| TCMallocInternalNew(size),
    |object, size| TCMallocInternalDeleteSized(object, size)
}

// The crate declares only its own bridge; the library beneath has the whole family.
unsafe extern "C" {
    fn TCMallocInternalMalloc(size: usize) -> *mut c_void;
    fn TCMallocInternalFree(object: *mut c_void);
    fn TCMallocInternalRealloc(object: *mut c_void, size: usize) -> *mut c_void;
    fn TCMallocInternalCalloc(count: usize, size: usize) -> *mut c_void;
    fn TCMallocInternalMallInfo2() -> libc::mallinfo2;
    fn TCMallocInternalNew(size: usize) -> *mut c_void;
    fn TCMallocInternalDeleteSized(object: *mut c_void, size: usize);
    fn MallocExtension_Internal_GetPerCpuCachesActive() -> bool;
    fn MallocExtension_Internal_ReleaseMemoryToSystem(bytes: usize) -> usize;
}

// Named so that the library is linked.
use libtcmalloc_sys as _;

/// Whether tcmalloc really keeps its caches as the mode says; a figure under the wrong name would
/// be worse than none.
fn check_mode(mode: Mode) -> Result<(), Failure> {
    // The first allocation decides the mode.
    let object = Tcmalloc.alloc(64);
    // SAFETY: allocated above and freed once.
    unsafe { Tcmalloc.free(object, 64) };
    // SAFETY: the function has no precondition.
    let per_cpu = unsafe { MallocExtension_Internal_GetPerCpuCachesActive() };
    if per_cpu == (mode.name == PER_CPU.name) {
        return Ok(());
    }
    let found = if per_cpu { "per CPU" } else { "per thread" };
    Err(Failure::run(format!(
        "tcmalloc keeps its caches {found} where '{}' was expected",
        mode.name
    )))
}

peer! {
    /// rpmalloc 1.4, the newest that the registry has as source: `rpmalloc` and `rpfree`.
    /// It has no sized form.
    Rpmalloc,
    |size| rpmalloc_sys::rpmalloc(size),
    |object, _size| rpmalloc_sys::rpfree(object),
    |object, size| rpmalloc_sys::rprealloc(object, size),
    zeroed |size| rpmalloc_sys::rpcalloc(1, size),
    enter rpmalloc_sys::rpmalloc_thread_initialize()
}

impl Rpmalloc {
    fn new() -> Rpmalloc {
        static START: Once = Once::new();
        START.call_once(|| {
            // SAFETY: called once, before any other function of the library.
            unsafe { rpmalloc_sys::rpmalloc_initialize() };
        });
        Rpmalloc
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/contenders_allocators_peers.rs"]
mod tests;
