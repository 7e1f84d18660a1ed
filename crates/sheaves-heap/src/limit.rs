//! The limit on the memory of the heap.

use crate::start::start;

/// Sets a limit in bytes, at least 1 MiB, on the memory of the heap, of malloc and of all caches;
/// `None` removes it. Replaces `SHEAVES_LIMIT`.
///
/// No allocation fails because of it. From seven eighths of the limit on, unused memory goes back
/// to the system at once, deferred frees are hurried, and depots take nothing. The first time one
/// line on standard error says so.
///
/// What counts is memory in use, and free memory that holds old contents: slabs and mappings, by
/// the size of their address range, touched or not.
///
/// ```
/// sheaves_heap::set_limit(Some(256 << 20));
/// # sheaves_heap::set_limit(None);
/// ```
pub fn set_limit(bytes: Option<usize>) {
    // The start reads the option.
    start();
    sheaves_slab::limit::set(bytes);
}

pub use sheaves_slab::limit::on_near as on_near_limit;
