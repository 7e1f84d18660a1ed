//! The fast paths that the page shows.

/// A fast path: the symbol of its wrapper in the example, and its description. A wrapper is
/// `#[inline(never)] #[unsafe(no_mangle)] extern "C"`. `main` has to call it through `black_box`,
/// or the linker removes it.
#[derive(Debug, Clone, Copy)]
pub struct FastPath {
    /// Symbol of the wrapper.
    pub symbol: &'static str,
    /// One line for the table.
    pub what: &'static str,
}

/// The fast paths on the page, in this order.
pub const FAST_PATHS: [FastPath; 6] = [
    FastPath { symbol: "fast_cache_alloc", what: "`Cache::alloc`: pop from the main sheaf" },
    FastPath { symbol: "fast_cache_free", what: "`Cache::free`: push onto the main sheaf" },
    FastPath { symbol: "fast_sized_alloc", what: "`GlobalAlloc::alloc`: class from the layout" },
    FastPath { symbol: "fast_sized_free", what: "`GlobalAlloc::dealloc`: class from the layout" },
    FastPath { symbol: "fast_malloc", what: "`malloc`: class from the size" },
    FastPath { symbol: "fast_free", what: "`free`: cache from the address" },
];
