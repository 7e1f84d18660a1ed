//! How objects move between slabs, sheaves and slots, in any mode; what becomes of
//! a tagged one; and which caches there are.

pub(crate) mod flush;
pub(crate) mod holes;
pub(crate) mod home;
pub(crate) mod refill;
pub(crate) mod registry;
pub(crate) mod release;
pub(crate) mod slot;
pub(crate) mod tags;
