//! Readers: the records of their threads, and how a section begins and ends.
//!
//! From the bottom up: `registry` (the records), `mode` (membarrier or fences), `fences` (which
//! threads need no membarrier), `section` (the fast paths), `guard` (the public types).

pub(crate) mod fences;
pub(crate) mod guard;
pub(crate) mod mode;
pub(crate) mod registry;
pub(crate) mod section;
