//! Pages of large tables: huge ones where the kernel has them, and discarded after its retirement.

use core::alloc::Layout;
use core::ptr::null_mut;

use sheaves_heap as heap;
use sheaves_rcu::defer::{Head, call_rcu};
use sheaves_rcu::internal::{pressure, wake_if_pressed};
use sheaves_sys::{map, options};

/// Tables of fewer bytes, with at most one huge page, do without.
const HUGE_BYTES_MIN: usize = 4 << 20;
/// The pages of smaller tables stay in the heap for other blocks.
const DISCARD_BYTES_MIN: usize = 1 << 20;

/// Asks for huge pages. A lookup in a large table misses the TLB, and nearly all of the table is
/// used: the hash spreads entries over it.
pub(in crate::map) fn advise(block: *mut u8, layout: Layout) {
    if layout.size() >= HUGE_BYTES_MIN && !cfg!(miri) && options::HUGE_PAGES.word() != "never" {
        let (address, bytes) = inside(block, layout);
        // Without them the table works, too.
        let _ = map::prefer_huge_pages(address, bytes);
    }
}

/// The pages that are inside a block as a whole.
fn inside(block: *mut u8, layout: Layout) -> (usize, usize) {
    let page = map::page_bytes();
    let address = block.addr().next_multiple_of(page);
    (address, (block.addr() + layout.size() - address) / page * page)
}

/// A large table that waits for a grace period.
#[repr(C)]
struct Retired {
    head: Head,
    block: *mut u8,
    layout: Layout,
}

/// Frees a table after a grace period. The pages of a large one return to the kernel: the next
/// table is twice as large, so that the heap would keep them for nothing.
///
/// # Safety
/// From the heap, with this layout, and only readers still use it.
pub(in crate::map) unsafe fn free_rcu(block: *mut u8, layout: Layout) {
    let is_large = layout.size() >= DISCARD_BYTES_MIN && !cfg!(miri);
    let retired = if is_large { heap::alloc_layout(Layout::new::<Retired>()) } else { null_mut() };
    let retired = retired.cast::<Retired>();
    if retired.is_null() {
        // SAFETY: the same contract.
        return unsafe { heap::free_rcu_layout(block, layout) };
    }
    // SAFETY: by the layout there is room for it, and the memory is ours.
    unsafe { retired.write(Retired { head: Head::new(), block, layout }) };
    pressure::note_sealed(0, layout.size());
    wake_if_pressed();
    // SAFETY: an idle head at the start of its block, which is freed in the callback.
    unsafe { call_rcu(retired.cast(), end) };
}

/// The callback of [`free_rcu`].
unsafe extern "C" fn end(head: *mut Head) {
    // SAFETY: the head starts the block of a table that was retired.
    let Retired { block, layout, .. } = unsafe { head.cast::<Retired>().read() };
    // First: a child of a fork in the middle does not go on with it.
    pressure::note_reclaimed(0, layout.size());
    // SAFETY: from the heap, with this layout, and read for the last time.
    unsafe { heap::dealloc_layout(head.cast(), Layout::new::<Retired>()) };
    let (address, bytes) = inside(block, layout);
    // SAFETY: nothing uses the block any more.
    unsafe { map::discard(address, bytes) };
    // SAFETY: from the heap, with this layout.
    unsafe { heap::dealloc_layout(block, layout) };
}
