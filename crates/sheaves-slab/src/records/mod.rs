//! What is known of single objects: samples of heap profiles, traps, the stacks of frees, leaks,
//! the bytes of hardened objects, and what is secret about them. Nothing here knows where an object
//! is.

pub mod bounds;
pub mod by_address;
pub mod last_frees;
pub mod leaks;
pub(crate) mod object_bytes;
pub(crate) mod profile;
pub(crate) mod secret;
pub mod trap;
