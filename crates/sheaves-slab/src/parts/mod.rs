//! The parts of a cache: its shape, its lists of slabs, its depot of sheaves, its queues of what is
//! deferred, and the descriptor that has them. Each has its lock, or none; nothing here moves an
//! object.

pub(crate) mod deferred_queue;
pub(crate) mod depot;
pub(crate) mod descriptor;
pub(crate) mod pool;
pub mod shape;
pub(crate) mod sheaf_size;
pub(crate) mod slab_lists;
pub(crate) mod usage;
