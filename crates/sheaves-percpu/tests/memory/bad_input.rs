//! Impossible requests are refused with the right error, and change nothing.

use core::sync::atomic::AtomicU64;

use sheaves_percpu::PerCpu;
use sheaves_percpu::memory::{ALIGN_MAX, Error, FreeError, Handle, OBJECT_BYTES_MAX, alloc, free};

use crate::{in_process, is_process_for};

/// True in a process in which a double free is safe; otherwise starts that process. In the shared
/// process, other tests could have got the memory in between.
fn is_apart(test: &str) -> bool {
    let is_apart = is_process_for(test);
    if !is_apart {
        in_process(test, &[]);
    }
    is_apart
}

/// Frees a handle that is or was allocated.
fn give(handle: Handle) -> Result<(), FreeError> {
    // SAFETY: no test here uses the memory of objects that it frees.
    unsafe { free(handle) }
}

#[test]
fn sizes_and_alignments_out_of_range() {
    assert_eq!(alloc(0, 8), Err(Error::ZeroSize));
    assert_eq!(alloc(OBJECT_BYTES_MAX + 1, 8), Err(Error::TooLarge));
    assert_eq!(alloc(usize::MAX, 8), Err(Error::TooLarge));
    for align in [0, 3, 24, ALIGN_MAX + 1, 2 * ALIGN_MAX, usize::MAX] {
        assert_eq!(alloc(8, align), Err(Error::BadAlignment), "{align}");
    }
    for (size, align) in [(1, 1), (OBJECT_BYTES_MAX, ALIGN_MAX), (1, ALIGN_MAX)] {
        let handle = alloc(size, align).unwrap();
        assert_eq!((handle.size(), handle.align()), (size, align));
        assert_eq!(handle.address(0).unwrap().addr().get() % align, 0);
        give(handle).unwrap();
    }
}

#[test]
fn types_out_of_range() {
    assert_eq!(PerCpu::<()>::zeroed().err(), Some(Error::ZeroSize));
    assert_eq!(PerCpu::<[u64; 5000]>::zeroed().err(), Some(Error::TooLarge));
    #[repr(align(8192))]
    struct Wide(#[expect(dead_code, reason = "gives it a size")] u8);
    assert_eq!(PerCpu::with(|_| Wide(0)).err(), Some(Error::BadAlignment));
}

#[test]
fn freed_twice() {
    if !is_apart("bad_input::freed_twice") {
        return;
    }
    for size in [1, 8, 12, 15, 16, 17, 64, 300, 5000] {
        // Next to others, so that the memory is not allocated again in between.
        let neighbours: Vec<_> = (0..3).map(|_| alloc(size, 8).unwrap()).collect();
        give(neighbours[1]).unwrap();
        assert_eq!(give(neighbours[1]), Err(FreeError::AlreadyFree), "{size}");
        give(neighbours[0]).unwrap();
        give(neighbours[2]).unwrap();
        assert_eq!(give(neighbours[0]), Err(FreeError::AlreadyFree), "{size}");
    }
}

/// Even if the memory of all of them, and of their marks, was returned to the kernel.
#[test]
fn freed_twice_after_all_is_given_back() {
    if !is_apart("bad_input::freed_twice_after_all_is_given_back") {
        return;
    }
    for (size, align) in [(8, 8), (12, 4), (16, 16), (40, 8), (3000, 64)] {
        let objects: Vec<_> = (0..20_000).map(|_| alloc(size, align).unwrap()).collect();
        assert!(objects.iter().all(|object| give(*object).is_ok()));
        sheaves_percpu::memory::trim();
        for object in &objects {
            assert_eq!(give(*object), Err(FreeError::AlreadyFree), "{size} {object:?}");
        }
        // If one had been accepted, two of these would be at the same place.
        let again: Vec<_> = (0..20_000).map(|_| alloc(size, align).unwrap()).collect();
        let mut offsets: Vec<_> = again.iter().map(|object| object.offset()).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), again.len());
        again.into_iter().for_each(|object| give(object).unwrap());
    }
}

#[test]
fn freed_by_many_at_once() {
    if !is_apart("bad_input::freed_by_many_at_once") {
        return;
    }
    for _ in 0..200 {
        let handle = alloc(16, 8).unwrap();
        let freed = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| give(handle))).collect();
            let results: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            let failed = results.iter().filter(|r| **r == Err(FreeError::AlreadyFree)).count();
            (results.iter().filter(|r| r.is_ok()).count(), failed)
        });
        assert_eq!(freed, (1, 2));
    }
}

#[test]
fn numbers_that_are_no_handles() {
    if !is_apart("bad_input::numbers_that_are_no_handles") {
        return;
    }
    assert_eq!(Handle::from_bits(0), None);
    let handle = alloc(40, 8).unwrap();
    let bits = handle.to_bits();
    assert_eq!(Handle::from_bits(bits), Some(handle));
    let mut accepted = 0;
    for number in 1..100_000_u64 {
        if let Some(forged) = Handle::from_bits(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            // One of 65536 passes the seal, but no object is there.
            accepted += 1;
            assert!(give(forged).is_err());
        }
    }
    assert!(accepted < 20, "{accepted}");
    give(handle).unwrap();
}

/// Memory that rows have after the last object: numbers there pass for handles.
#[test]
fn numbers_beyond_the_last_object() {
    if !is_apart("bad_input::numbers_beyond_the_last_object") {
        return;
    }
    let objects: Vec<_> = (0..100).map(|_| alloc(32 << 10, 8).unwrap()).collect();
    let end = sheaves_percpu::memory::statistics().unwrap().committed_bytes;
    for offset in [end - 65_536, end - 8, end] {
        let rest = (offset as u64 / 4) | 8 << 28 | 3 << 44;
        let handle = (0..=0xFFFF).find_map(|seal: u64| Handle::from_bits(rest | seal << 48));
        assert!(give(handle.unwrap()).is_err());
    }
    objects.into_iter().for_each(|object| give(object).unwrap());
}

/// A typed value cannot be freed as a handle, wherever it is.
#[test]
fn handles_of_typed_values_are_refused() {
    if !is_apart("bad_input::handles_of_typed_values_are_refused") {
        return;
    }
    let handle = alloc(8, 8).unwrap();
    give(handle).unwrap();
    let values: Vec<_> = (0..1000).map(|_| PerCpu::<AtomicU64>::zeroed().unwrap()).collect();
    assert_eq!(give(handle), Err(FreeError::AlreadyFree));
    drop(values);
}

#[test]
fn slots_that_do_not_exist() {
    let handle = alloc(8, 8).unwrap();
    let slots = sheaves_percpu::slot_count();
    assert!(handle.address(slots).is_some(), "the row that threads without a slot share");
    assert_eq!(handle.address(slots + 1), None);
    assert_eq!(handle.address(usize::MAX), None);
    give(handle).unwrap();
}

#[test]
fn errors_say_what_is_wrong() {
    let errors = [Error::ZeroSize, Error::TooLarge, Error::BadAlignment, Error::Exhausted];
    let more = [Error::NoMemory];
    let texts: std::collections::BTreeSet<_> =
        errors.iter().chain(&more).map(ToString::to_string).collect();
    assert_eq!(texts.len(), 5);
}
