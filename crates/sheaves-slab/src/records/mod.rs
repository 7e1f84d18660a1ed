//! What is known of single objects: samples of heap profiles, guarded blocks, the stacks of frees,
//! leaks, and the bytes of hardened objects. Nothing here knows where an object is.

pub(crate) mod contents;
pub mod guard;
pub mod leaks;
pub(crate) mod profile;
pub mod trail;
