//! The process is at `vm.max_map_count`: blocks with a mapping of their own cannot be unmapped.

use sheaves_heap::{aligned_alloc, calloc, free, malloc, report, trim};

use crate::End::GoesOn;
use crate::mappings::{self, PAGE, exhaust, is_limit_near};

const BYTES: usize = 8 << 20;

/// Pages of a block that are in memory; `None` where it is not mapped.
fn resident(block: *mut u8) -> Option<usize> {
    let mut pages = [0_u8; BYTES / PAGE];
    // SAFETY: reads only, and there is room for every page.
    let status = unsafe { libc::mincore(block.cast(), BYTES, pages.as_mut_ptr()) };
    (status == 0).then(|| pages.iter().filter(|page| **page & 1 != 0).count())
}

/// Three adjacent blocks, each written completely.
fn neighbours() -> [*mut u8; 3] {
    let mut blocks: Vec<_> = (0..30).map(|_| malloc(BYTES)).collect();
    blocks.sort_unstable();
    let is_row = |three: &[*mut u8]| {
        three[1].addr() - three[0].addr() == BYTES && three[2].addr() - three[1].addr() == BYTES
    };
    let index = blocks.windows(3).position(is_row).expect("the kernel maps side by side");
    let row: Vec<_> = blocks.drain(index..index + 3).collect();
    for block in blocks {
        // SAFETY: from this heap.
        unsafe { free(block) };
    }
    // So that the blocks have used memory on both sides, or none.
    trim(0);
    for block in &row {
        // SAFETY: within the block, whose size this is.
        unsafe { block.write_bytes(0xa5, BYTES) };
    }
    row.try_into().unwrap()
}

fn memory_is_returned_to_the_kernel() {
    if !is_limit_near() {
        return;
    }
    let [first, middle, last] = neighbours();
    assert_eq!(resident(middle), Some(BYTES / PAGE));
    let (place, bytes) = exhaust();
    // SAFETY: from this heap.
    unsafe { free(middle) };
    trim(0);
    assert_eq!(resident(middle), Some(0), "the block keeps its memory");
    // The range serves the next block that fits, and reads as zeros.
    let again = calloc(1, BYTES - PAGE);
    assert_eq!(again, middle, "the range is forgotten");
    // SAFETY: within the block, whose size this is.
    let content = unsafe { core::slice::from_raw_parts(again, BYTES - PAGE) };
    assert!(content.iter().all(|byte| *byte == 0));
    // SAFETY: from this heap.
    assert_eq!(unsafe { sheaves_heap::usable_size(again) }, BYTES);
    // SAFETY: from this heap.
    unsafe { free(again) };
    trim(0);
    assert_eq!(resident(middle), Some(0));
    assert_eq!(report::totals().large_blocks, 2, "what is kept counts as a block");
    // SAFETY: mapped by `exhaust`, not used.
    assert_eq!(unsafe { libc::munmap(place, bytes) }, 0);
    // Unmapping a neighbour unmaps it, too.
    // SAFETY: from this heap.
    unsafe { free(first) };
    trim(0);
    assert_eq!(resident(middle), None, "the range is never unmapped");
    // SAFETY: from this heap.
    unsafe { free(last) };
    trim(0);
    assert_eq!((resident(first), resident(last)), (None, None));
    assert_eq!(report::totals().used_bytes, 0);
}

/// What the kernel refuses to unmap is unmapped later: of blocks that were freed before, and what
/// was mapped for an alignment.
fn address_space_is_returned_to_the_kernel() {
    if !is_limit_near() {
        return;
    }
    let before = mappings::bytes();
    // Larger than what is kept for other blocks.
    let mut blocks: Vec<_> = (0..5).map(|_| malloc(100 << 20)).collect();
    // SAFETY: from this heap.
    [3, 1].into_iter().for_each(|index| unsafe { free(blocks.remove(index)) });
    let (place, bytes) = exhaust();
    trim(0);
    for page in 0..8 {
        let address = place.wrapping_byte_add((2 * page + 1) * PAGE);
        // SAFETY: a page of the mapping that `exhaust` has made different from its neighbours.
        assert_eq!(unsafe { libc::mprotect(address, PAGE, libc::PROT_NONE) }, 0);
        blocks.extend((0..4).map(|_| aligned_alloc(256 << 20, 2 << 20)));
    }
    // SAFETY: mapped by `exhaust`, not used.
    assert_eq!(unsafe { libc::munmap(place, bytes) }, 0);
    // SAFETY: from this heap, or null.
    blocks.into_iter().for_each(|block| unsafe { free(block) });
    trim(0);
    let lost = mappings::bytes().saturating_sub(before);
    assert!(lost < 4 << 20, "{lost} bytes");
}

crate::cases! {
    address_space [], GoesOn(&[]) => { address_space_is_returned_to_the_kernel(); }
    address_space_of_hardened_blocks [("SHEAVES_HARDEN", "1")], GoesOn(&[]) => {
        address_space_is_returned_to_the_kernel();
    }
    block_in_the_middle [], GoesOn(&[]) => { memory_is_returned_to_the_kernel(); }
}
