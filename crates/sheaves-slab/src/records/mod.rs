//! What is known of single objects: samples of heap profiles, traps, the stacks of frees,
//! leaks, and the bytes of hardened objects. Nothing here knows where an object is.

pub mod by_address;
pub mod last_frees;
pub mod leaks;
pub(crate) mod object_bytes;
pub(crate) mod profile;
pub mod trap;
