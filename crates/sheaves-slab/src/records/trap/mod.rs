//! Guard samples: allocations beside inaccessible pages, whose misuse traps at once.
//!
//! One in N samples of a heap profile, or of what would be its samples while it is off, gets a
//! *place* of a pool instead of an object of its cache: pages of its own between inaccessible ones.
//! The block is at the end of the pages or at their beginning, by chance. When it is freed the
//! pages become inaccessible, too, until the place is needed again; the one that was freed first is
//! taken first. The same happens to a block that is deferred, when its grace period is over: so a
//! reader that keeps a pointer after its section is found.
//!
//! The cache's own object, in place of which the block is allocated, stays taken meanwhile and
//! becomes free when the block does. So numbers of objects are right, and the tag that made the
//! sample stays in its slot (see `tags`).
//!
//! | a free by | is noticed |
//! |---|---|
//! | address (C's `free`, `free_rcu`) | at once: outside the heap it takes the slow path |
//! | layout, or of a named cache | when the sheaf that has the address leaves the slot |
//! | `free_rcu` of either | after the grace period |
//!
//! Until it is noticed, such a block may be allocated again like any object. So it has the whole
//! size of its class.
//!
//! The modules, from the bottom up: [`layout`], `table` (states and records), `report`, `pool`.

pub mod layout;
mod pool;
mod report;
mod table;

pub use pool::{ONE_IN_MAX, bytes_of, note_deferral, one_in};
pub(crate) use pool::{
    alloc, defer, free, is_live, note_deferred, replace_traps, set, start_option,
};
pub use table::contains;
