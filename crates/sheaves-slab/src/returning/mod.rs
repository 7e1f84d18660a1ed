//! Unused memory goes back: by the library's thread, by frees where there is none, by a call, and
//! to other caches before an allocation fails.

pub(crate) mod shrink;
pub(crate) mod surplus;
pub(crate) mod tick;
