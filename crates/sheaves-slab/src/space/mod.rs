//! Address space, and what of it belongs to what: the window, chunks and granules, headers of
//! slabs, numbers of caches. Nothing here knows an object's cache but by its number.

pub(crate) mod cache_id;
pub mod checking;
pub mod chunk;
pub(crate) mod falls;
pub mod granule;
pub(crate) mod hint;
pub mod limit;
pub mod slab;
pub mod window;
pub(crate) mod work;
