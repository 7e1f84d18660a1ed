//! The heap where the address space is too small for its window, as with 39 bits: it starts in what
//! is left, and works to that limit.
//!
//! One test, because it fills the address space of its process.

use sheaves_heap::{free, malloc};

/// What is left of the address space.
const LEFT_BYTES: usize = 4 << 30;
/// Other libraries need some of it while the test runs.
const FILL_BYTES_MIN: usize = 1 << 28;
const BLOCK_BYTES: usize = 1 << 20;

/// Reserves addresses, without memory; `None` where there is no such range.
fn reserve(bytes: usize) -> Option<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a mapping where the kernel chooses.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start)
}

#[test]
fn heap_works_to_the_limit_of_a_small_address_space() {
    let left = reserve(LEFT_BYTES).unwrap();
    let mut bytes = 1 << 46;
    while bytes >= FILL_BYTES_MIN {
        if reserve(bytes).is_none() {
            bytes /= 2;
        }
    }
    // SAFETY: reserved above, and never used.
    assert_eq!(unsafe { libc::munmap(left, LEFT_BYTES) }, 0);

    let fill = || {
        let blocks = core::iter::repeat_with(|| malloc(BLOCK_BYTES));
        blocks.take_while(|block| !block.is_null()).collect::<Vec<_>>()
    };
    let blocks = fill();
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
    let again = fill();
    // The library's thread may have started meanwhile; its stack has 8 MiB.
    assert!(again.len() + 9 >= blocks.len(), "{} after {}", again.len(), blocks.len());
    // SAFETY: as above.
    again.iter().for_each(|block| unsafe { free(*block) });
}
