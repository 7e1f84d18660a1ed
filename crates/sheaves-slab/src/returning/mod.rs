//! Unused memory goes back: by the library's thread, by frees where there is none, by a call, and
//! to other caches before an allocation fails.

pub(crate) mod keeper;
pub(crate) mod reclaim;
pub(crate) mod surplus;
