//! Bounds on unused memory, on request: the limit of the heap, and memory that goes back to the
//! kernel at once. Without a request the keeper returns it, see
//! [`sheaves_rcu::internal::arm_keeper`].

use sheaves_slab::internal::{chunk, limit};

use crate::large;
use crate::start::start;

pub use sheaves_slab::internal::limit::on_near as on_near_limit;

/// Sets a limit in bytes, at least 1 MiB, on the memory of the heap, of malloc and of all caches;
/// `None` removes it. Replaces `SHEAVES_LIMIT`.
///
/// No allocation fails because of it. From seven eighths of the limit on, unused memory goes back
/// to the kernel at once, deferred frees are hurried, and depots take nothing. The first time one
/// line on standard error says so.
///
/// What counts is memory in use, and free memory that holds old contents: slabs and mappings, by
/// the size of their address range, touched or not.
///
/// ```
/// # mod sheaves { pub use sheaves_heap as heap; }
/// sheaves::heap::set_limit(Some(256 << 20));
/// # sheaves::heap::set_limit(None);
/// ```
pub fn set_limit(bytes: Option<usize>) {
    // The start reads the option.
    start();
    limit::set(bytes);
}

/// Returns unused memory to the kernel: of malloc, of all caches, and of per-CPU objects. At most
/// `keep_bytes` stay free with their old contents, for the next allocations.
///
/// True when any was returned. Interrupts the CPUs that run this process, once per cache, and takes
/// milliseconds: the sheaves of all slots go back to their slabs. May sleep on locks.
///
/// ```
/// # mod sheaves { pub use sheaves_heap as heap; }
/// drop(vec![1_u8; 10 << 20]);
/// sheaves::heap::trim(0);
/// ```
pub fn trim(keep_bytes: usize) -> bool {
    if !start() {
        return false;
    }
    let mappings = large::trim(keep_bytes);
    let kept = large::totals().idle_bytes;
    sheaves_slab::trim(keep_bytes.saturating_sub(kept)) + mappings > 0
}

/// Returns unused memory to the kernel until the heap has at most `bytes`, which counts what
/// [`set_limit`] counts; true when that was reached. Drains slots and depots, as [`trim`] does,
/// only if what is free does not suffice.
pub fn release_to(bytes: usize) -> bool {
    if !start() {
        return true;
    }
    let dirty_bytes = chunk::footprint().dirty_bytes + large::totals().idle_bytes;
    let used_bytes = limit::heap_bytes().saturating_sub(dirty_bytes);
    let keep_bytes = bytes.saturating_sub(used_bytes);
    if limit::heap_bytes() > bytes {
        large::trim(keep_bytes);
        chunk::trim(keep_bytes.saturating_sub(large::totals().idle_bytes));
    }
    if limit::heap_bytes() > bytes {
        trim(keep_bytes);
    }
    limit::heap_bytes() <= bytes
}
