//! Large blocks of a hardened process: each lies between two inaccessible pages.
//!
//! ```text
//!   | page, inaccessible | block | page, inaccessible |
//! ```
//!
//! A block that is freed becomes inaccessible as a whole. It is unmapped when 256 others
//! were freed after it, so a late access does not find another mapping there at once. A block that
//! grows moves, and its old addresses become inaccessible, too.
//!
//! Each block takes two of the mappings that a process may have. Once blocks take an eighth of
//! these, the pages beside further ones are accessible: then neighbours are one mapping.

use sheaves_sys::{map, vm};

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
    let Some(address) = reserve(bytes, align) else { return 0 };
    let beside = beside(TABLE.lock().count);
    // SAFETY: reserved just now.
    let is_mapped = unsafe { map::commit(address - beside, bytes + 2 * beside) };
    if !is_mapped || !TABLE.lock().insert(Entry { address, bytes }) {
        unmap(Entry { address, bytes });
        return 0;
    }
    address
}

/// Bytes on each side of a further block that are accessible.
fn beside(blocks: usize) -> usize {
    if blocks < vm::mappings_max() / 16 { 0 } else { map::page_bytes() }
}

/// Reserves room for a block, and the pages beside it.
fn reserve(bytes: usize, align: usize) -> Option<usize> {
    let page = map::page_bytes();
    let all = bytes.checked_add(align.max(page) + page)?;
    let start = map::reserve(all)?;
    let address = (start + page).next_multiple_of(align.max(page));
    let (from, to, end) = (address - page, address + bytes + page, start + all);
    for (begin, bytes) in [(start, from - start), (to, end - to)] {
        if bytes != 0 {
            // SAFETY: the head or the tail of a mapping made above.
            unsafe { map::unmap(begin, bytes) };
        }
    }
    Some(address)
}

/// Moves the pages of a block to where there is room for more; `None`, with the block unchanged,
/// when the kernel refuses or there are too many blocks. The caller holds the table's lock, passes
/// the number of blocks, changes the block's entry, and calls [`retire_moved`].
pub(super) fn grow(block: Entry, bytes: usize, blocks: usize) -> Option<usize> {
    if beside(blocks) != 0 {
        // Pages that have moved cannot be one mapping with others.
        return None;
    }
    let address = reserve(bytes, map::page_bytes())?;
    // SAFETY: the block is the caller's, which uses the new address only; the room is ours.
    if unsafe { map::move_to(block.address, block.bytes, bytes, address) } {
        return Some(address);
    }
    // Perhaps the kernel has unmapped what is between the pages, and another thread's mapping is
    // there. If not, it stays reserved.
    unmap_pages_beside(Entry { address, bytes });
    None
}

/// Takes a block that was removed from the table.
pub(super) fn retire(block: Entry) {
    // SAFETY: removed from the table, so ours alone; it is not used any more.
    unsafe { map::uncommit(block.address, block.bytes) };
    replace_oldest(block);
}

/// Takes what [`grow`] has left: two inaccessible pages with nothing between them.
pub(super) fn retire_moved(block: Entry) {
    // Another thread's mapping may have got there since.
    if map::reserve_exactly(block.address, block.bytes) {
        replace_oldest(block);
        return;
    }
    unmap_pages_beside(block);
}

fn unmap_pages_beside(block: Entry) {
    let page = map::page_bytes();
    for address in [block.address - page, block.address + block.bytes] {
        // SAFETY: the page is ours, and not used any more.
        unsafe { map::unmap(address, page) };
    }
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
