//! Out of memory: errors, and everything that needs no memory still works.

use core::ptr::null_mut;
use std::sync::Barrier;

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::memory::{self, Error, Handle, OBJECT_BYTES_MAX, alloc, free};
use sheaves_percpu::slot_count;
use sheaves_percpu::{Counter, PerCpu, PerCpuRef, PerCpuStatic, SlotCell};

use crate::resident::bytes_in_rows;
use crate::{in_own_configuration, in_process, is_process_for, mappings};

/// Limits in KiB for programs, as `ulimit -v` takes them.
const LIMITS_KIB: [usize; 4] = [300_000, 100_000, 40_000, 20_000];

fn give(handle: Handle) {
    // SAFETY: the tests here do not use the memory.
    unsafe { free(handle) }.unwrap();
}

/// Allocates until memory is out; returns the objects and the error. `out` is empty and already has
/// the memory that it will need.
fn exhaust(size: usize, mut out: Vec<Handle>) -> (Vec<Handle>, Error) {
    loop {
        match alloc(size, 8) {
            Ok(handle) => out.push(handle),
            Err(error) => return (out, error),
        }
    }
}

/// Runs under a limit on the address space, which makes the rows short.
#[test]
fn exhausted() {
    if !is_process_for("limits::exhausted") {
        return;
    }
    let rows = slot_count() + 1;
    let [large, small, again, mut few] = [(); 4].map(|()| Vec::with_capacity(20_000));
    let (large, error) = exhaust(OBJECT_BYTES_MAX, large);
    println!("{rows} rows: {} objects of 32 KiB, then: {error}", large.len());
    assert!(matches!(error, Error::Exhausted | Error::NoMemory), "{error}");
    // Small objects still fit, until nothing does, including cached ones.
    for size in [4096, 200, 16] {
        let error;
        (few, error) = exhaust(size, few);
        assert!(matches!(error, Error::Exhausted | Error::NoMemory), "{error}");
        few.drain(..).for_each(give);
    }
    let (small, _) = exhaust(8, small);
    // Types that need no memory of their own, or can work without it.
    let counter = Counter::new();
    counter.add(5);
    assert_eq!(counter.sum(), 5);
    let count = PerCpuRef::new(|| ());
    assert!(count.try_get());
    count.put();
    assert_eq!(count.kill(), Ok(true));
    assert!(count.is_released());
    static LAZY: PerCpuStatic<SlotCell<u64>> = PerCpuStatic::new();
    assert_eq!(LAZY.get().load(), 0);
    // Everything works again after something was freed.
    let count = large.len();
    large.into_iter().chain(small).for_each(give);
    let (again, _) = exhaust(OBJECT_BYTES_MAX, again);
    // Rows may have grown by less since then, for the small objects.
    assert!(again.len() >= count, "{} after {count}", again.len());
    again.into_iter().for_each(give);
    memory::trim();
}

/// The same program started by a shell with `ulimit -v`.
#[test]
fn address_space_limited() {
    if crate::engines::is_small() {
        return;
    }
    for limit in LIMITS_KIB {
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -v {limit}; exec \"$0\" --exact limits::exhausted --nocapture"))
            .arg(std::env::current_exe().unwrap())
            .arg("--test-threads=1")
            .env(crate::PROCESS, "limits::exhausted")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{limit} KiB: {}\n{text}{errors}", output.status);
        println!("{limit} KiB: {}", text.lines().find(|l| l.contains("rows")).unwrap_or_default());
    }
}

/// The end of the reserved range, not of memory: few objects fit into a row of 8192.
#[test]
fn range_exhausted() {
    const NAME: &str = "limits::range_exhausted";
    if !is_process_for(NAME) {
        let slots = [("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "8192")];
        in_own_configuration(NAME, &slots);
        return;
    }
    let row_bytes = {
        give(alloc(8, 8).unwrap());
        memory::statistics().unwrap().row_bytes
    };
    let (out, error) = exhaust(OBJECT_BYTES_MAX, Vec::new());
    assert_eq!(error, Error::Exhausted);
    assert_eq!(error.to_string(), "the range reserved for each slot is exhausted");
    let taken = out.len() * OBJECT_BYTES_MAX;
    assert!(taken + (128 << 10) >= row_bytes, "{taken} of {row_bytes}");
    out.into_iter().for_each(give);
    memory::trim();
    assert_eq!(memory::statistics().unwrap().allocator.objects(), 0);
}

/// Sets the soft limit on writable memory.
fn limit_data(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) }, 0);
}

/// Reservations do not count as memory: a process that may write to 64 MiB in total has rows of
/// gigabytes. It uses what it may, and gets an error when that is used up.
///
/// The limit counts the same as strict accounting (`vm.overcommit_memory` = 2): private writable
/// memory. So it is the closest test that does not change the whole machine.
#[test]
fn writable_memory_limited() {
    const NAME: &str = "limits::writable_memory_limited";
    const LIMIT: usize = 64 << 20;
    if !is_process_for(NAME) {
        if !crate::engines::is_small() {
            in_process(NAME, &[]);
        }
        return;
    }
    let mut out = Vec::with_capacity(100_000);
    limit_data(LIMIT as libc::rlim_t);
    // Before the engine has started, so that the reservation itself is made under the limit.
    assert_eq!(memory::statistics(), None);
    let error = loop {
        match alloc(OBJECT_BYTES_MAX, 8) {
            Ok(handle) => out.push(handle),
            Err(error) => break error,
        }
    };
    let statistics = memory::statistics().unwrap();
    // A failing assertion needs memory for its message.
    limit_data(libc::RLIM_INFINITY);
    assert_eq!(error, Error::NoMemory);
    assert!(statistics.row_bytes > LIMIT, "{statistics:?}");
    // The row of this thread's slot and the shared one; the program itself uses some of the limit.
    let committed = statistics.committed_bytes;
    let rows = (statistics.slots_used + 1) * committed;
    assert!((LIMIT / 4..=LIMIT).contains(&rows), "{rows} bytes of rows");
    // Rows grow by an eighth, and then there may be no memory for the metadata of the last chunks.
    let used = out.len() * OBJECT_BYTES_MAX;
    assert!(used + committed / 8 + (128 << 10) >= committed, "{used} of {committed}");
    limit_data(LIMIT as libc::rlim_t);
    out.into_iter().for_each(give);
    let counter = Counter::new();
    counter.add(3);
    assert_eq!(counter.sum(), 3);
    limit_data(libc::RLIM_INFINITY);
}

/// Rows and what describes them grow where the kernel makes no more mappings.
#[test]
fn mappings_limited() {
    const NAME: &str = "limits::mappings_limited";
    if !is_process_for(NAME) {
        in_process(NAME, &[]);
        return;
    }
    if !mappings::is_limit_near() {
        return;
    }
    give(alloc(8, 8).unwrap());
    let before = memory::statistics().unwrap().committed_bytes;
    let mut out = Vec::with_capacity(100);
    mappings::exhaust();
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let map = || {
        // SAFETY: a new mapping, which replaces nothing.
        unsafe { libc::mmap(null_mut(), mappings::PAGE, libc::PROT_READ, flags, -1, 0) }
    };
    while map() != libc::MAP_FAILED {}
    out.extend((0..out.capacity()).map_while(|_| alloc(OBJECT_BYTES_MAX, 8).ok()));
    assert_eq!(out.len(), out.capacity(), "{before} bytes of rows before");
    assert!(memory::statistics().unwrap().committed_bytes > before);
    for handle in out {
        let place = handle.address(slot_count()).unwrap();
        // SAFETY: the object has that size, and no thread uses the shared row.
        unsafe { place.write_bytes(1, OBJECT_BYTES_MAX) };
        give(handle);
    }
}

/// A value in KiB from this process's status, in bytes.
fn status_bytes(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let number = line.trim_start_matches(':').split_whitespace().next().unwrap();
    1024 * number.parse::<usize>().unwrap()
}

/// Rows of 64 slots can grow to gigabytes, and take address space as they grow.
#[test]
fn address_space_is_taken_as_it_is_used() {
    const NAME: &str = "limits::address_space_is_taken_as_it_is_used";
    if !is_process_for(NAME) {
        in_own_configuration(NAME, &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")]);
        return;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    if !maps.lines().any(|line| bytes_in_rows(line).is_some()) {
        println!("skipped: in an address space of fewer than 47 bits it is reserved");
        return;
    }
    let before = status_bytes("VmSize");
    assert!(before < 1 << 30, "{before} bytes");
    let objects: Vec<_> = (0..100).map(|_| alloc(OBJECT_BYTES_MAX, 8).unwrap()).collect();
    let statistics = memory::statistics().unwrap();
    assert!(statistics.row_bytes >= 64 << 20, "{statistics:?}");
    let grown = status_bytes("VmSize") - before;
    // The first row is always open, and so is the shared one.
    let used = (statistics.slots_used.max(1) + 1) * statistics.committed_bytes;
    assert!(grown <= used + (2 << 20), "{grown} bytes for {used} in rows");
    objects.into_iter().for_each(give);
}

/// A start that fails, at whatever step, leaves nothing allocated, and the next one works.
#[test]
fn failed_starts_leave_nothing() {
    const NAME: &str = "limits::failed_starts_leave_nothing";
    const TRIES: usize = 20;
    if !is_process_for(NAME) {
        if !crate::engines::is_small() {
            in_process(NAME, &[]);
        }
        return;
    }
    let (data, size) = (status_bytes("VmData"), status_bytes("VmSize"));
    let mut failures = 0;
    let handle = 'starts: loop {
        limit_data((data + failures / TRIES * 4096) as libc::rlim_t);
        for _ in 0..TRIES {
            match alloc(8, 8) {
                Ok(handle) => break 'starts handle,
                Err(error) => assert_eq!(error, Error::NoMemory),
            }
            failures += 1;
        }
    };
    limit_data(libc::RLIM_INFINITY);
    assert!(failures > 2 * TRIES, "{failures} failures");
    let grown = status_bytes("VmSize") - size;
    assert!(grown < 1 << 20, "{grown} bytes after {failures} failures");
    give(handle);
}

/// The kernel refuses memory for a while, even for rows of new slots. No unit is lost, and slots
/// work as soon as there is memory again.
#[test]
fn memory_refused() {
    const NAME: &str = "limits::memory_refused";
    const THREADS: i64 = 6;
    if !is_process_for(NAME) {
        in_own_configuration(NAME, &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")]);
        return;
    }
    let (counter, number) =
        (Counter::<4>::with_batch(), PerCpu::<SlotCell<i64>>::zeroed().unwrap());
    let count = PerCpuRef::new(|| ());
    counter.add(1);
    assert!(count.try_get());
    count.put();
    let mut objects = Vec::with_capacity(100_000);
    let barrier = Barrier::new(THREADS as usize + 1);
    let add = || {
        for _ in 0..100 {
            counter.add(7);
            number.as_cell().sub(2);
            assert!(count.try_get_live());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // After the thread has begun, because its start needs memory.
                barrier.wait();
                barrier.wait();
                assert!(!attach());
                add();
                barrier.wait();
                barrier.wait();
                assert!(attach());
                add();
            });
        }
        barrier.wait();
        // Not 0, which the kernel treats as no limit.
        limit_data(1);
        barrier.wait();
        let refusal = loop {
            match alloc(OBJECT_BYTES_MAX, 8) {
                Ok(object) => objects.push(object),
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(refusal, Error::NoMemory);
        barrier.wait();
        limit_data(libc::RLIM_INFINITY);
        barrier.wait();
        objects.push(alloc(OBJECT_BYTES_MAX, 8).unwrap());
    });
    assert_eq!(counter.sum(), 1 + 1_400 * THREADS);
    assert_eq!(number.sum(), -400 * THREADS);
    (0..200 * THREADS).for_each(|_| count.put());
    assert_eq!(count.kill(), Ok(true));
    assert!(count.is_released());
    objects.into_iter().for_each(give);
}
