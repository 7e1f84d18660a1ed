//! Tests of `src/elf.rs`.

use super::*;

#[test]
fn this_test_is_a_dynamic_program_without_an_allocator() {
    let path = std::env::current_exe().expect("a path");
    let facts = Facts::read(&path).expect("an ELF file");
    assert!(facts.dynamic && facts.interpreter.is_some(), "{facts:?}");
    assert!(facts.needed.iter().any(|name| name == "libc.so.6"), "{facts:?}");
    assert_eq!(facts.exports, Allocators::default());
}

#[test]
fn kind_of_machine_is_read_in_either_byte_order() {
    let mut start = [0_u8; 20];
    start[..6].copy_from_slice(b"\x7fELF\x02\x01");
    start[18] = 62;
    assert_eq!(Target::of_start(&start).expect("ELF").to_string(), "64-bit x86-64");
    start[4..6].copy_from_slice(&[1, 2]);
    start[18..].copy_from_slice(&[0, 40]);
    assert_eq!(Target::of_start(&start).expect("ELF").to_string(), "32-bit ARM");
    assert_eq!(Target::of_start(b"#!/bin/sh"), None);
    assert_eq!(Target::of_start(MAGIC), None);
}
