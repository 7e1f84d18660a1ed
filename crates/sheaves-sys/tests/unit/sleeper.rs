//! Tests of stacks; programs with frame pointers are tested through the C API.

extern crate std;
use std::format;
use std::sync::mpsc;
use std::thread::spawn;

use super::*;
use crate::thread;

#[test]
fn a_thread_that_sleeps_has_a_stack() {
    let (tell, told) = mpsc::channel();
    let (wake, woken) = mpsc::channel::<()>();
    let sleeper = spawn(move || {
        tell.send(thread::id()).unwrap();
        let _ = woken.recv();
    });
    let id = told.recv().unwrap();
    // Until it sleeps.
    let text = (0..10_000).find_map(|_| {
        thread::sleep_ns(1_000_000);
        Some(format!("{}", of(id))).filter(|text| !text.is_empty())
    });
    drop(wake);
    sleeper.join().unwrap();
    let text = text.unwrap();
    assert!(text.starts_with("; it sleeps in syscall"), "{text}");
}

#[test]
fn a_thread_that_runs_or_is_absent_has_none() {
    assert_eq!(format!("{}", of(thread::id())), "");
    assert_eq!(format!("{}", of(i32::MAX)), "");
}

#[test]
fn memory_that_is_not_mapped_is_not_read() {
    let mut memory = Memory::new();
    assert_eq!(memory.word(8), None);
    assert_eq!(memory.word(usize::MAX), None);
    let words = [1_u64, 2, 3];
    let address = words.as_ptr().expose_provenance();
    assert_eq!((memory.word(address + 8), memory.byte(address + 16)), (Some(2), Some(3)));
}
