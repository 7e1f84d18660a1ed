//! Bad input gives the right error and changes nothing.

extern crate std;

use crate::dynamic::{Allocator, Config, Error, FreeError, OBJECT_BYTES_MAX};

use super::arena::Arena;

const CONFIG: Config = Config { unit_bytes: 32 << 10, chunks_max: 2 };

fn allocator(config: Config) -> Option<Allocator<Arena>> {
    Allocator::new(Arena::new(), config)
}

#[test]
fn bad_configurations_panic() {
    let panics = |config| std::panic::catch_unwind(|| allocator(config).is_some()).is_err();
    for unit_bytes in [0, 4096, 16 << 10, 48 << 10, 512 << 10, usize::MAX] {
        assert!(panics(Config { unit_bytes, ..CONFIG }));
    }
    for chunks_max in [0, usize::MAX, 1 << 60] {
        assert!(panics(Config { chunks_max, ..CONFIG }));
    }
}

#[test]
fn no_memory_for_metadata_is_no_allocator() {
    let mut arena = Arena::new();
    arena.allowance = 0;
    assert!(Allocator::new(arena, CONFIG).is_none());
}

#[test]
fn bad_requests_are_refused() {
    let mut a = allocator(CONFIG).unwrap();
    {
        let mut refusal = |size, align| a.alloc(size, align).unwrap_err();
        assert_eq!(refusal(0, 8), Error::ZeroSize);
        assert_eq!(refusal(OBJECT_BYTES_MAX + 1, 8), Error::TooLarge);
        assert_eq!(refusal(usize::MAX, 8), Error::TooLarge);
        for align in [0, 3, 24, 8192, usize::MAX, 1 << 63] {
            assert_eq!(refusal(8, align), Error::BadAlignment);
        }
    }
    assert_eq!(a.statistics().chunks, 0);
}

#[test]
fn a_range_that_is_used_up_is_exhausted_and_usable_again() {
    let mut a = allocator(CONFIG).unwrap();
    let first = a.alloc(OBJECT_BYTES_MAX, 4096).unwrap();
    let second = a.alloc(OBJECT_BYTES_MAX, 4096).unwrap();
    assert_eq!(a.alloc(4, 4), Err(Error::Exhausted));
    assert_eq!(a.free(first), Ok(OBJECT_BYTES_MAX));
    assert_eq!(a.alloc(4, 4), Ok(first));
    assert_eq!(a.free(second), Ok(OBJECT_BYTES_MAX));
    a.verify().unwrap();
}

#[test]
fn a_backing_without_memory_is_named() {
    let mut a = allocator(CONFIG).unwrap();
    for allowance in 0..2 {
        a.backing_mut().allowance = allowance;
        assert_eq!(a.alloc(16, 16), Err(Error::NoMemory));
        a.verify().unwrap();
    }
    a.backing_mut().allowance = usize::MAX;
    assert!(a.alloc(16, 16).is_ok());
}

#[test]
fn bad_frees_are_told_apart() {
    let mut a = allocator(CONFIG).unwrap();
    assert_eq!(a.free(0), Err(FreeError::Foreign));
    let before = a.alloc(16 << 10, 64).unwrap();
    let object = a.alloc(100, 64).unwrap();
    assert_eq!((before, object), (0, 16 << 10));
    let at = |bytes: usize| object + bytes;
    // The inside of objects, free memory, another chunk, and after all chunks.
    assert_eq!(a.free(4096), Err(FreeError::NotAnObject));
    assert_eq!(a.free(at(1)), Err(FreeError::NotAnObject));
    assert_eq!(a.free(at(4)), Err(FreeError::NotAnObject));
    assert_eq!(a.free(at(96)), Err(FreeError::NotAnObject));
    assert_eq!(a.free(at(104)), Err(FreeError::NotAnObject));
    assert_eq!(a.free(32 << 10), Err(FreeError::Foreign));
    assert_eq!(a.free(64 << 10), Err(FreeError::Foreign));
    assert_eq!(a.free(usize::MAX), Err(FreeError::Foreign));
    assert_eq!(a.free(object), Ok(100));
    assert_eq!(a.free(object), Err(FreeError::AlreadyFree));
    assert_eq!(a.statistics().frees, 1);
    a.verify().unwrap();
}

#[test]
fn errors_say_what_they_are() {
    let said = [
        Error::ZeroSize.to_string(),
        Error::Exhausted.to_string(),
        FreeError::AlreadyFree.to_string(),
    ];
    assert!(said.iter().all(|line| line.len() > 10 && !line.ends_with('.')));
}
