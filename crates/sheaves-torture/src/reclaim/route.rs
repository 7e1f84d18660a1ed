//! The ways to defer an object.

use crate::random::Random;

/// A way to defer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Route {
    /// Objects of a cache.
    Cache,
    /// Objects of a cache with a constructor.
    Constructor,
    /// Objects of a type-stable cache.
    TypeStable,
    /// The same, freed at once: their readers know that they may find another object.
    TypeStableFree,
    /// Objects of a debug cache.
    Checked,
    /// Objects of a cache that is destroyed soon. Only the thread that creates it replaces its
    /// objects.
    Passing,
    /// Small blocks.
    Small,
    /// Small blocks by their layout.
    Layout,
    /// Blocks that are alone in their slabs, or mappings.
    Large,
    /// Addresses in blocks.
    Channel,
    /// The same, with a head for the case that memory for a block is out.
    ChannelHead,
    Call,
    Hurry,
    Closure,
    /// A box of a value without destructor, and of one with a destructor.
    Box,
    BoxDrop,
    /// A value that was in a cell.
    Retired,
}

pub(super) const ROUTES: [(Route, &str); 17] = [
    (Route::Cache, "cache"),
    (Route::Constructor, "cache-constructor"),
    (Route::TypeStable, "cache-typesafe"),
    (Route::TypeStableFree, "cache-typesafe-free"),
    (Route::Checked, "cache-debug"),
    (Route::Passing, "cache-that-ends"),
    (Route::Small, "malloc"),
    (Route::Layout, "malloc-layout"),
    (Route::Large, "malloc-large"),
    (Route::Channel, "channel"),
    (Route::ChannelHead, "channel-with-head"),
    (Route::Call, "call_rcu"),
    (Route::Hurry, "call_hurry"),
    (Route::Closure, "closure"),
    (Route::Box, "box"),
    (Route::BoxDrop, "box-with-drop"),
    (Route::Retired, "retired"),
];

impl Route {
    /// A random route that readers may use, since it never waits for a grace period and never
    /// leaks: see [`sheaves_rcu::defer`].
    pub(super) fn any_of_readers(random: &mut Random) -> Route {
        let routes = [Route::ChannelHead, Route::Call, Route::Closure, Route::BoxDrop];
        routes[random.below(routes.len() as u64) as usize]
    }

    /// True when a constructor writes its objects.
    pub(super) fn is_constructed(self) -> bool {
        matches!(self, Route::Constructor | Route::TypeStable | Route::TypeStableFree)
    }

    /// True when a function is called for each of its objects.
    pub(super) fn is_called(self) -> bool {
        use Route::{BoxDrop, Call, Channel, ChannelHead, Closure, Hurry, Retired};
        matches!(self, Channel | ChannelHead | Call | Hurry | Closure | BoxDrop | Retired)
    }
}
