//! Memory of the heap that goes back to it once the readers of now are gone.
//!
//! Objects of a size class go the way of [`sheaves_slab::raw::Cache::free_rcu`]: one push, and they
//! come back as part of a full sheaf. Large blocks, and all of them where each is surrounded by red
//! zones, go one by one.

use core::alloc::Layout;

use sheaves_heap::classes;
use sheaves_percpu::{self as percpu, Access};
use sheaves_rcu::defer::Channel;
use sheaves_slab::raw::by_id;
use sheaves_slab::{CacheId, registry};

static LARGE: Channel = Channel::new("tables of hash maps", free);

/// Frees a block once the readers of now are gone. Never waits, but without any memory.
///
/// # Safety
/// From the heap, with this layout, and used by readers only.
#[inline]
pub(super) unsafe fn free_rcu(block: *mut u8, layout: Layout) {
    let class = classes::of_layout(layout.size(), layout.align());
    let Some(class) = class.filter(|_| !registry::is_debug()) else {
        // SAFETY: the caller's contract; the channel frees what the heap has made.
        return unsafe { LARGE.free_later(block, layout.size()) };
    };
    let (id, address) = (CacheId::of_class(class), block.expose_provenance());
    // SAFETY: objects are even, and the caller gives up this one.
    if !unsafe { percpu::push(Access::get(), id.deferred(), address) } {
        // SAFETY: an object of the cache, as above.
        unsafe { by_id::free_rcu_checked(id, address) };
    }
}

/// # Safety
/// From the heap, and nobody uses it.
unsafe fn free(block: *mut u8) {
    // SAFETY: the same contract.
    unsafe { sheaves_heap::free(block) };
}
