//! The heap where the address space is too small for its window, as with 39 bits: it starts in what
//! is left, and works to that limit.
//!
//! One test, in processes of its own, because it fills the address space.

use std::process::Command;

use sheaves_heap::{free, free_rcu, malloc};

/// What is left of the address space.
const LEFT_BYTES: usize = 4 << 30;
/// Other libraries need some of it while the test runs.
const FILL_BYTES_MIN: usize = 1 << 28;
const BLOCK_BYTES: usize = 1 << 20;
/// Sizes of classes whose slabs have two granules or more.
const IN_SLABS: [usize; 3] = [2 << 10, 5 << 10, 40 << 10];
/// Sheaves hold less, and are flushed.
const BLOCKS: usize = 2000;
const GRANULE_BYTES: usize = 64 << 10;
const CHUNK_BYTES: usize = 2 << 20;
/// Set in the processes that the test starts: the granule of a chunk at which what is left ends.
const CASE: &str = "SHEAVES_CASE";
/// Only the program reclaims what it defers.
const NO_RECLAIMER: (&str, &str) = ("SHEAVES_RCU_RECLAIMERS", "0");

/// Reserves addresses, without memory; `None` where there is no such range.
fn reserve(bytes: usize) -> Option<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a mapping where the kernel chooses.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start)
}

#[test]
fn heap_works_to_the_limit_of_a_small_address_space() {
    if let Ok(granule) = std::env::var(CASE) {
        fill_what_is_left(granule.parse().unwrap());
        return;
    }
    for granule in ["0", "1", "2"] {
        for option in [("SHEAVES_HARDEN", "0"), ("SHEAVES_HARDEN", "1"), NO_RECLAIMER] {
            let output = Command::new(std::env::current_exe().unwrap())
                .arg("--nocapture")
                .envs([(CASE, granule), option])
                .output()
                .unwrap();
            assert!(output.status.success(), "{granule}, {option:?}: {output:?}");
            println!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

/// Fills the address space, but for a range that ends at a granule of a chunk, and uses a heap
/// there.
fn fill_what_is_left(granule: usize) {
    let start = reserve(LEFT_BYTES + 2 * CHUNK_BYTES).unwrap();
    let ahead = start.align_offset(CHUNK_BYTES) + granule * GRANULE_BYTES;
    let left = start.wrapping_byte_add(ahead);
    let mut bytes = 1 << 46;
    while bytes >= FILL_BYTES_MIN {
        if reserve(bytes).is_none() {
            bytes /= 2;
        }
    }
    // SAFETY: reserved above, and never used.
    assert_eq!(unsafe { libc::munmap(left, LEFT_BYTES) }, 0);
    flush_slabs();
    let is = |(option, value): (&str, &str)| std::env::var(option).as_deref() == Ok(value);
    if is(NO_RECLAIMER) {
        take_what_was_deferred();
    } else if is(("SHEAVES_HARDEN", "0")) {
        work_to_the_limit();
    }
}

/// Objects come back from sheaves to slabs, which are found by the alignment of their granules.
fn flush_slabs() {
    for size in IN_SLABS {
        let blocks: Vec<_> = (0..BLOCKS).map(|_| malloc(size)).collect();
        assert!(blocks.iter().all(|block| !block.is_null()), "no memory for {size} bytes");
        // SAFETY: allocated above, and not used any more.
        blocks.iter().for_each(|block| unsafe { free(*block) });
    }
}

/// Allocates blocks of one size until there is no memory for another one.
fn fill(size: usize) -> Vec<*mut u8> {
    core::iter::repeat_with(|| malloc(size)).take_while(|block| !block.is_null()).collect()
}

/// Before an allocation fails, objects of another size are freed that may be by now.
fn take_what_was_deferred() {
    let [_, small, size] = IN_SLABS;
    let blocks = fill(size);
    // So that there is memory for the sheaves of what is deferred.
    let (freed, deferred) = blocks.split_at(blocks.len() / 4);
    // SAFETY: allocated above, and not used any more.
    freed.iter().for_each(|block| unsafe { free(*block) });
    let section = sheaves_rcu::read();
    // SAFETY: as above.
    deferred.iter().for_each(|block| unsafe { free_rcu(*block) });
    drop(section);
    sheaves_rcu::synchronize().unwrap();
    let again = fill(small);
    println!("{} blocks of {size} bytes, then {} of {small}", blocks.len(), again.len());
    assert!(again.len() * small > blocks.len() * size / 4 * 3, "what was deferred is missing");
}

/// Fills the heap, empties it and fills it again.
fn work_to_the_limit() {
    let blocks = fill(BLOCK_BYTES);
    let bytes = blocks.len() * BLOCK_BYTES;
    println!("{} MiB in blocks of 1 MiB", bytes >> 20);
    // Half of it is the window. The rest serves blocks of this size, and so do smaller holes.
    let expected = LEFT_BYTES / 4 * 3..2 * LEFT_BYTES;
    assert!(expected.contains(&bytes), "{bytes} bytes in {LEFT_BYTES}");
    for block in &blocks {
        // SAFETY: a block of this size, which nothing else uses.
        unsafe { block.write_bytes(1, 64) };
    }
    // SAFETY: allocated above, and not used any more.
    blocks.iter().for_each(|block| unsafe { free(*block) });
    let again = fill(BLOCK_BYTES);
    // The library's thread may have started meanwhile; its stack has 8 MiB.
    assert!(again.len() + 9 >= blocks.len(), "{} after {}", again.len(), blocks.len());
    // SAFETY: as above.
    again.iter().for_each(|block| unsafe { free(*block) });
}
