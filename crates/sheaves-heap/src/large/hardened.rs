//! Large blocks of a hardened process: each lies between two inaccessible pages.
//!
//! ```text
//!   | page, inaccessible |    | block | page, inaccessible |
//! ```
//!
//! A block ends where its last page does, as far as its alignment permits. All blocks from 256 KiB
//! on are such ones, from level 2 on those from 56 KiB on.
//!
//! A block that is freed is cleared. At level 1 one of up to [`STAYS_BYTES_MAX`] waits where it is,
//! and is checked before its pages serve another block. What else is freed becomes inaccessible as
//! a whole. It is unmapped when 256 others were freed after it, so a late access does not find
//! another mapping there at once. A block that grows moves, and its old addresses become
//! inaccessible, too.
//!
//! The pages of what becomes inaccessible move: to the addresses of the block that was freed 256
//! blocks before, if that had as many pages, else to such that no block has had. There they are
//! idle, see [`super::idle`], and serve a block without a page fault: one of as many pages without
//! a system call, a smaller one from their end, with one call for the two pages between it and what
//! is left.
//!
//! Each block takes two of the mappings that a process may have. Once blocks take an eighth of
//! these, the pages beside further ones are accessible: then neighbours are one mapping.

use sheaves_slab::internal::checking::is_exact;
use sheaves_slab::internal::{by_id, zero};
use sheaves_sys::map;

use super::idle::IDLE_BYTES_MAX;
use super::room::{give_back, give_back_beside};
use super::table::{Entry, RETIRED, TABLE};
use crate::classes::QUANTUM_BYTES;

/// A block, which reads as zeros; 0 when memory is out.
pub(super) fn alloc(size: usize, align: usize) -> usize {
    let Some(bytes) = size.max(1).checked_next_multiple_of(map::page_bytes()) else { return 0 };
    let mut table = TABLE.lock();
    let beside = beside(table.count);
    table.is_crowded |= beside != 0;
    drop(table);
    let idle = if beside == 0 { take_idle(bytes, align) } else { None };
    let Some(address) = idle.or_else(|| reserve(bytes, align)) else { return 0 };
    // SAFETY: ours since just now.
    let is_mapped = idle.is_some() || unsafe { map::commit(address - beside, bytes + 2 * beside) };
    let usable = rounded(size, align);
    let block = Entry { address: address + bytes - usable, bytes: usable };
    if !is_mapped || !TABLE.lock().insert(block) {
        unmap(block);
        return 0;
    }
    block.address
}

/// Pages that are idle, for a block.
fn take_idle(bytes: usize, align: usize) -> Option<usize> {
    let page = map::page_bytes();
    if align > page {
        return None;
    }
    // Before another thread can take the rest.
    // SAFETY: both pages are of a range that is idle.
    let forbid = |start: usize| unsafe { map::forbid(start - page, 2 * page) };
    let start = TABLE.lock().idle.take_end(bytes + 2 * page, 3 * page, forbid)?;
    Some(start + page)
}

/// Bytes of a block for a request: those from its start, which is as far behind that of its pages
/// as the alignment permits, to their end.
pub(crate) fn rounded(size: usize, align: usize) -> usize {
    let bytes = size.max(1).next_multiple_of(map::page_bytes());
    // Less than a page, so none where blocks are aligned to pages.
    bytes - ((bytes - size.max(1)) & !(align.max(QUANTUM_BYTES) - 1))
}

/// The pages of a block. It ends where they do.
pub(super) fn pages_of(block: Entry) -> Entry {
    let before = block.address % map::page_bytes();
    Entry { address: block.address - before, bytes: block.bytes + before }
}

/// Bytes on each side of a further block that are accessible.
fn beside(blocks: usize) -> usize {
    if blocks < map::MAPPINGS_MAX / 16 { 0 } else { map::page_bytes() }
}

/// Before the room for a block of this size is reserved, the kernel is asked for that much memory:
/// it would give any number of pages of a reservation, also more than the machine has.
const ASKED_BYTES_MIN: usize = 1 << 30;

/// Reserves room for a block, and the pages beside it.
fn reserve(bytes: usize, align: usize) -> Option<usize> {
    let page = map::page_bytes();
    if bytes >= ASKED_BYTES_MIN {
        let address = map::anywhere(bytes)?;
        // SAFETY: mapped just now, and nothing else uses it.
        unsafe { map::unmap(address, bytes) };
    }
    let all = bytes.checked_add(align.max(page) + page)?;
    let start = map::reserve(all)?;
    let address = (start + page).next_multiple_of(align.max(page));
    let block = with_pages_beside(Entry { address, bytes });
    give_back_beside(block, Entry { address: start, bytes: all });
    Some(address)
}

/// Moves the pages of a block to where there is room for more; `None`, with the block unchanged,
/// when the kernel refuses or there are too many blocks. The caller holds the table's lock, passes
/// the number of blocks, changes the block's entry, and calls [`retire_moved`].
///
/// The block is as far from the start of its pages as before, so it may end before they do.
pub(super) fn grow(block: Entry, size: usize, blocks: usize) -> Option<Entry> {
    if beside(blocks) != 0 {
        // Pages that have moved cannot be one mapping with others.
        return None;
    }
    let pages = pages_of(block);
    let before = block.address - pages.address;
    let bytes = (before + size).next_multiple_of(map::page_bytes());
    let address = reserve(bytes, map::page_bytes())?;
    let is_moved = move_pages(pages, Entry { address, bytes });
    is_moved.then_some(Entry { address: address + before, bytes: bytes - before })
}

/// Moves pages of the caller, which uses the new address only, to room that is the caller's. False,
/// with the room given back, when the kernel refuses.
fn move_pages(pages: Entry, room: Entry) -> bool {
    // SAFETY: the pages and the room are the caller's, and what moves is not used here any more.
    let is_moved = unsafe { map::move_to(pages.address, pages.bytes, room.bytes, room.address) };
    if !is_moved {
        // Perhaps the kernel has unmapped what is between the pages beside it, and another thread's
        // mapping is there. If not, it stays reserved.
        unmap_pages_beside(room);
    }
    is_moved
}

/// At level 1 only larger blocks become inaccessible when they are freed: that takes four system
/// calls, and interrupts the other threads.
const STAYS_BYTES_MAX: usize = 2 << 20;

/// Takes a block that was removed from the table. Returns where its pages are idle, if they are,
/// and if they wait there, the bytes of those that were cleared.
pub(super) fn retire(block: Entry) -> Option<(Entry, usize)> {
    let pages = pages_of(block);
    if pages.bytes <= STAYS_BYTES_MAX && !is_exact() && !TABLE.lock().is_crowded {
        let cleared = zero(pages.address, pages.bytes, ZERO_PAGES);
        return Some((with_pages_beside(pages), cleared));
    }
    let idle = if pages.bytes <= IDLE_BYTES_MAX { move_elsewhere(pages) } else { None };
    if idle.is_some() {
        retire_moved(block);
    } else {
        // SAFETY: removed from the table, so ours alone; it is not used any more.
        unsafe { map::uncommit(pages.address, pages.bytes) };
        replace_oldest(block);
    }
    Some((idle?, 0))
}

fn with_pages_beside(pages: Entry) -> Entry {
    let page = map::page_bytes();
    Entry { address: pages.address - page, bytes: pages.bytes + 2 * page }
}

/// Behind this number of pages in a row that are zero, a block counts as unused: a look at a page
/// without memory is a page fault.
const ZERO_PAGES: usize = 8;

/// Clears pages that are the caller's, and moves them between two inaccessible ones. `None`, with
/// them where they were, if the kernel refuses, or if there are too many blocks.
fn move_elsewhere(pages: Entry) -> Option<Entry> {
    let Entry { address, bytes } = pages;
    if beside(TABLE.lock().count) != 0 {
        return None;
    }
    let to = take_oldest(bytes).or_else(|| reserve(bytes, map::page_bytes()))?;
    zero(address, bytes, ZERO_PAGES);
    let room = Entry { address: to, bytes };
    move_pages(pages, room).then(|| with_pages_beside(room))
}

/// Takes what [`grow`] has left: two inaccessible pages with nothing between them.
pub(super) fn retire_moved(block: Entry) {
    let pages = pages_of(block);
    // Another thread's mapping may have got there since.
    if map::reserve_exactly(pages.address, pages.bytes) {
        replace_oldest(block);
        return;
    }
    unmap_pages_beside(block);
}

fn unmap_pages_beside(block: Entry) {
    let (page, pages) = (map::page_bytes(), pages_of(block));
    for address in [pages.address - page, pages.address + pages.bytes] {
        // SAFETY: the page is ours, and not used any more.
        unsafe { map::unmap(address, page) };
    }
}

/// Takes the addresses of the block that was freed first, if its pages have that number of bytes,
/// and there certainly are inaccessible ones beside them.
fn take_oldest(bytes: usize) -> Option<usize> {
    let mut table = TABLE.lock();
    let place = table.next_retired;
    let pages = pages_of(table.retired[place]);
    if pages.bytes != bytes || table.is_crowded {
        return None;
    }
    table.retired[place] = Entry::NONE;
    Some(pages.address)
}

/// Puts a block in the place of the one that was freed first, which is unmapped.
fn replace_oldest(block: Entry) {
    let mut table = TABLE.lock();
    let place = table.next_retired;
    table.next_retired = (place + 1) % RETIRED;
    let oldest = core::mem::replace(&mut table.retired[place], block);
    drop(table);
    if oldest.address != 0 {
        unmap(oldest);
    }
}

/// True for an address in a block that was freed, and neither is unmapped nor has other addresses.
pub(crate) fn is_retired(address: usize) -> bool {
    let is_in = |block: &Entry| (block.address..block.address + block.bytes).contains(&address);
    let table = TABLE.lock();
    table.idle.is_waiting(address) || table.retired.iter().any(is_in)
}

/// Unmaps all blocks that are inaccessible.
pub(super) fn unmap_all() {
    (0..RETIRED).for_each(|_| replace_oldest(Entry::NONE));
}

/// Checks everything that was freed and waits. When the process ends.
pub fn check_freed() {
    TABLE.lock().idle.check();
    by_id::check_freed();
}

fn unmap(block: Entry) {
    give_back(with_pages_beside(pages_of(block)));
}
