//! Advice about huge pages.
//!
//! | a chunk's advice | the kernel was asked | the chunk |
//! |---|---|---|
//! | `Foreign` | nothing | has mappings that are not the heap's |
//! | `Avoid` | for no huge page | is new, or has holes |
//! | `Prefer` | for a huge page | is dense |
//!
//! The kernel is asked for none also where it would give none unasked, and for one where it has
//! none. Its setting is in a file: reading that costs more, at the start of each process.
//!
//! Where two neighbours differ, the kernel splits its mapping of the heap in two: see
//! [`super::dense`].

use sheaves_sys::map;

/// Which chunks ask the kernel for a huge page: `SHEAVES_HUGE_PAGES`.
///
/// A huge page that is there at the first touch has to be cleared as a whole, and a heap that grows
/// may use little of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HugePages {
    /// None.
    Never,
    /// Those that had no free granule at all ticks for [`super::dense::DENSE_MS`]. None once the
    /// process has forked, because a child that lives on shares its pages.
    Auto,
    /// Also all others, when they are mapped.
    Always,
}

/// What the kernel was told about a chunk, see the head of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Advice {
    Foreign = 0,
    Avoid,
    Prefer,
}

impl Advice {
    /// Tells the kernel. False when it refuses.
    pub(super) fn give(self, address: usize, bytes: usize) -> bool {
        match self {
            Advice::Foreign => true,
            Advice::Avoid => map::avoid_huge_pages(address, bytes),
            Advice::Prefer => map::prefer_huge_pages(address, bytes),
        }
    }

    /// True when the kernel splits a mapping between chunks with these.
    pub(super) fn differs(self, other: Advice) -> bool {
        self != other && ![self, other].contains(&Advice::Foreign)
    }
}
