//! What is done with an object that is more than a plain one: samples, objects of debug caches, and
//! those that wait in the quarantine of hardened ones. Nothing here allocates for a caller.

pub(crate) mod debug;
pub(crate) mod incoming;
pub(crate) mod quarantine;
pub(crate) mod samples;
