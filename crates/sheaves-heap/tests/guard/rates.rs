//! How many errors are found: as many as there are samples, and at 1/1 all of them.

use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::fs::File;
use std::os::fd::AsRawFd as _;

use sheaves_heap::{free, free_rcu, guard, malloc, profile};
use sheaves_slab::internal::trap::contains;

use crate::{cases, passed, read, write};

const TRIALS: usize = 10_000;
const PAGE: usize = 4096;
/// Blocks that are alive at a time: fewer than slots, at 1/1.
const BATCH: usize = 200;
/// At this size a block is a sample with a probability that differs from 1 by e^-32.
const BYTES: usize = 32 << 10;

/// Faults that the program's own handler got.
static FAULTS: AtomicUsize = AtomicUsize::new(0);
/// The page that the last one has opened.
static OPENED: AtomicUsize = AtomicUsize::new(0);

fn protect(page: usize, protection: c_int) {
    // SAFETY: a page of the pool, which the test opens and closes.
    let status = unsafe { libc::mprotect(with_exposed_provenance_mut(page), PAGE, protection) };
    assert_eq!(status, 0);
}

/// The program's handler: the access is made again and succeeds.
extern "C" fn handler(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel's.
    let info = unsafe { &*info };
    // SAFETY: SIGSEGV has an address.
    let address = unsafe { info.si_addr() }.addr();
    // Relaxed, both: one thread.
    FAULTS.fetch_add(1, Ordering::Relaxed);
    OPENED.store(address / PAGE * PAGE, Ordering::Relaxed);
    protect(address / PAGE * PAGE, libc::PROT_READ | libc::PROT_WRITE);
}

fn prepare(one_in: usize) {
    // SAFETY: all zeros are an action.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as extern "C" fn(_, _, _) as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler is async-signal-safe.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()) }, 0);
    let sink = File::options().write(true).open("/dev/null").unwrap();
    // Ten thousand reports.
    // SAFETY: both are open.
    assert_eq!(unsafe { libc::dup2(sink.as_raw_fd(), 2) }, 2);
    assert!(profile::start(profile::RATE_BYTES_MIN));
    assert!(guard::on(one_in));
}

/// True if an access faults.
fn faults(access: impl FnOnce()) -> bool {
    let before = FAULTS.load(Ordering::Relaxed);
    access();
    let is_found = FAULTS.load(Ordering::Relaxed) != before;
    if is_found {
        protect(OPENED.load(Ordering::Relaxed), libc::PROT_NONE);
    }
    is_found
}

/// Errors of a kind that are found in [`TRIALS`].
fn found(mut is_found: impl FnMut(Vec<*mut u8>) -> usize) -> usize {
    let mut found = 0;
    for _ in 0..TRIALS / BATCH {
        found += is_found((0..BATCH).map(|_| malloc(BYTES)).collect());
        // A slot rests after a free: 10 ms at 1/1, where a batch takes most slots. At 1/8, where it
        // takes 25, 640 ms.
        let rest_ms = if guard::one_in() == 1 { 20 } else { 80 };
        std::thread::sleep(core::time::Duration::from_millis(rest_ms));
    }
    found
}

fn release(blocks: Vec<*mut u8>) {
    for block in blocks {
        // SAFETY: from this heap, and not used after.
        unsafe { free(block) };
    }
}

/// Reads past the end, or before the start, of a block of 32 KiB: the slot has the same size.
fn overflows() -> usize {
    found(|blocks| {
        let is_found = |(index, block): (usize, &*mut u8)| {
            let is_past = index % 2 == 0;
            let place = if is_past { block.wrapping_add(BYTES) } else { block.wrapping_sub(1) };
            contains(block.addr()) && faults(|| _ = read(place))
        };
        let count = blocks.iter().enumerate().filter(|block| is_found(*block)).count();
        release(blocks);
        count
    })
}

fn uses_after_free() -> usize {
    found(|blocks| {
        release(blocks.clone());
        let is_found =
            |block: &&*mut u8| contains(block.addr()) && faults(|| write(block.wrapping_add(5000)));
        blocks.iter().filter(is_found).count()
    })
}

fn late_readers() -> usize {
    found(|blocks| {
        for block in &blocks {
            // SAFETY: from this heap; only the late reader uses it.
            unsafe { free_rcu(*block) };
        }
        sheaves_rcu::defer::barrier().unwrap();
        let is_found = |block: &&*mut u8| {
            let _reader = sheaves_rcu::read();
            contains(block.addr()) && faults(|| _ = read(block.wrapping_add(5000)))
        };
        blocks.iter().filter(is_found).count()
    })
}

/// Within 20 % of one in `one_in`.
#[track_caller]
fn assert_near(found: usize, one_in: usize) {
    let expected = TRIALS / one_in;
    println!("found {found} of {TRIALS}, expected {expected}");
    assert!((expected * 4 / 5..=expected * 6 / 5).contains(&found));
}

/// Writes to each block after its free, which no other allocation comes before.
fn lifo_program() {
    // 244 samples in 128 MiB.
    for _ in 0..(128 << 20) / 64 {
        let block = malloc(64);
        // SAFETY: from this heap, and not used but for the error.
        unsafe { free(block) };
        write(block);
    }
}

/// The name of the case, for its processes.
const LIFO: &str = "rates::a_lifo_program_is_found_each_time";

#[test]
fn a_lifo_program_is_found_each_time() {
    if std::env::var(crate::CASE).is_ok_and(|name| name == LIFO) {
        return lifo_program();
    }
    for _ in 0..20 {
        let output = crate::run(LIFO, &[("SHEAVES_GUARD", "1/1")]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("use after free: write"), "{output:#?}");
    }
}

cases! {
    all_overflows_are_found [], |output| _ = passed(output) => {
        prepare(1);
        assert_eq!(overflows(), TRIALS);
    };
    all_uses_after_free_are_found [], |output| _ = passed(output) => {
        prepare(1);
        assert_eq!(uses_after_free(), TRIALS);
    };
    all_late_readers_are_found [], |output| _ = passed(output) => {
        prepare(1);
        assert_eq!(late_readers(), TRIALS);
    };
    one_in_eight_overflows_is_found [], |output| _ = passed(output) => {
        prepare(8);
        assert_near(overflows(), 8);
    };
    one_in_eight_uses_after_free_is_found [], |output| _ = passed(output) => {
        prepare(8);
        assert_near(uses_after_free(), 8);
    };
    one_in_eight_late_readers_is_found [], |output| _ = passed(output) => {
        prepare(8);
        assert_near(late_readers(), 8);
    };
}
