//! How objects move between slabs, sheaves and slots, in any mode, and which caches there are.
//! Nothing here decides what an object's free means.

pub(crate) mod earlier;
pub(crate) mod flush;
pub(crate) mod refill;
pub(crate) mod registry;
pub(crate) mod slot;
pub(crate) mod tags;
