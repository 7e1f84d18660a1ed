//! Large blocks of a hardened process: each lies between two inaccessible pages.
//!
//! ```text
//!   | page, inaccessible | block | page, inaccessible |
//! ```
//!
//! A block that is freed becomes inaccessible as a whole. It is unmapped when 256 others
//! were freed after it, so a late access does not find another mapping there at once.

use sheaves_sys::map;

use super::table::{Entry, RETIRED, TABLE};

/// A block of whole pages, which reads as zeros; 0 when memory is out.
pub(super) fn alloc(bytes: usize, align: usize) -> usize {
    match try_alloc(bytes, align) {
        // Freed blocks take address space, which may be limited.
        0 if unmap_all() => try_alloc(bytes, align),
        address => address,
    }
}

fn try_alloc(bytes: usize, align: usize) -> usize {
    let page = map::page_bytes();
    let Some(all) = bytes.checked_add(align.max(page) + page) else { return 0 };
    let Some(start) = map::reserve(all) else { return 0 };
    let address = (start + page).next_multiple_of(align.max(page));
    let (from, to, end) = (address - page, address + bytes + page, start + all);
    for (begin, bytes) in [(start, from - start), (to, end - to)] {
        if bytes != 0 {
            // SAFETY: the head or the tail of a mapping made above.
            unsafe { map::unmap(begin, bytes) };
        }
    }
    // SAFETY: inside of the mapping made above.
    let is_mapped = unsafe { map::commit(address, bytes) };
    if !is_mapped || !TABLE.lock().insert(Entry { address, bytes }) {
        unmap(Entry { address, bytes });
        return 0;
    }
    address
}

/// Takes a block that was removed from the table.
pub(super) fn retire(block: Entry) {
    // SAFETY: removed from the table, so ours alone; it is not used any more.
    unsafe { map::uncommit(block.address, block.bytes) };
    replace_oldest(block);
}

/// Puts a block in the place of the one that was freed first, which is unmapped. True if there was
/// one.
fn replace_oldest(block: Entry) -> bool {
    let mut table = TABLE.lock();
    let place = table.next_retired;
    table.next_retired = (place + 1) % RETIRED;
    let oldest = core::mem::replace(&mut table.retired[place], block);
    drop(table);
    if oldest.address != 0 {
        unmap(oldest);
    }
    oldest.address != 0
}

/// Unmaps all blocks that were freed. True if there were any.
pub(super) fn unmap_all() -> bool {
    (0..RETIRED).fold(false, |any, _| replace_oldest(Entry { address: 0, bytes: 0 }) | any)
}

fn unmap(block: Entry) {
    let page = map::page_bytes();
    // SAFETY: the block and its two pages are ours, and not used any more.
    unsafe { map::unmap(block.address - page, block.bytes + 2 * page) };
}
