//! Address space and what is mapped: may not know what the layers above keep there.

pub mod map;
pub mod memfd;
pub mod space;
