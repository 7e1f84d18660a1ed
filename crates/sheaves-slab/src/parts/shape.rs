//! The shape of a cache: sizes and properties that do not change while it exists.

use core::alloc::Layout;
use core::ptr::NonNull;

use sheaves_percpu::internal::Sheaf;

use crate::space::checking::{self, Checking};
use crate::space::granule::Granule;
use crate::space::slab;
use crate::space::window::GRANULE_BYTES;

/// The largest object of a cache, in bytes.
pub const OBJECT_BYTES_MAX: usize = 64 << 10;
/// A sheaf holds at most this many bytes of objects, and at least one object.
const SHEAF_HOLDS_BYTES: usize = 512 << 10;
/// The same for objects that are alone in their slabs. It can grow to a quarter of what is in use.
const SHEAF_HOLDS_BYTES_ALONE: usize = 8 << 20;
/// The same in a hardened process, from the first one on. It checks all objects of a sheaf at once:
/// so they are in the CPU's caches yet when they are allocated.
const SHEAF_HOLDS_BYTES_HARDENED: usize = 24 << 10;
/// A cache's first sheaves hold at most this many objects, and at most this many bytes. There are
/// none where one object is larger.
const SHEAF_OBJECTS_START: usize = 31;
const SHEAF_BYTES_START: usize = 4 << 10;
/// Two lines: many CPUs fetch the other one of such a pair, too.
const LINES_BYTES: usize = 128;
/// Longest name that is kept, in bytes.
const NAME_BYTES: usize = 31;

/// Bytes of the canary behind the size of an object, in a hardened process.
pub const CANARY_BYTES: usize = 8;

/// Bytes that objects are further apart at level 2 and in debug mode, see `records::bounds`.
pub const ZONE_BYTES: usize = 32;

/// Runs once for every object when its slab is created. A C function, so that C programs can pass
/// one.
pub type Constructor = unsafe extern "C" fn(NonNull<u8>);

/// The name of a cache, cut to 31 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    count: u8,
}

impl Name {
    pub(crate) fn new(name: &str) -> Name {
        let (mut bytes, count) = ([0; NAME_BYTES], name.floor_char_boundary(NAME_BYTES));
        bytes[..count].copy_from_slice(&name.as_bytes()[..count]);
        Name { bytes, count: count as u8 }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.count)]).unwrap_or("")
    }
}

/// The properties of a cache that do not change while it exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes that users may use.
    pub(crate) size: usize,
    /// Distance from one object of a slab to the next, in bytes.
    pub(crate) stride: usize,
    /// ceil(2^64 / stride): see [`Shape::index_of`].
    pub(crate) reciprocal: u64,
    /// Granules of a slab; a power of two, unless objects are alone in their slabs.
    pub(crate) granules: usize,
    /// Objects of a slab.
    pub(crate) slab_objects: usize,
    /// The most objects of a sheaf.
    pub(crate) sheaf_objects: usize,
    pub(crate) constructor: Option<Constructor>,
    pub(crate) checking: Checking,
    /// Bytes of a slab of several objects whose canary is their state, in hardened mode; otherwise
    /// 0. See `checked::quarantine`.
    pub(crate) quick_bytes: usize,
    /// Objects can be neither read nor written: blocks of size 0.
    pub(crate) unreadable: bool,
    /// Empty slabs are kept for one grace period.
    pub(crate) typesafe: bool,
    pub(crate) name: Name,
}

impl Shape {
    /// The shape of a cache that does not exist. All zeros, so that the table of caches takes no
    /// room in the program's file.
    pub(crate) const NONE: Shape = Shape {
        size: 0,
        stride: 0,
        reciprocal: 0,
        granules: 0,
        slab_objects: 0,
        sheaf_objects: 0,
        constructor: None,
        checking: Checking::Plain,
        quick_bytes: 0,
        unreadable: false,
        typesafe: false,
        name: Name { bytes: [0; NAME_BYTES], count: 0 },
    };

    /// The shape for objects of a layout, of a cache checked as the process is, without a name;
    /// `None` when out of range.
    pub(crate) fn new(layout: Layout) -> Option<Shape> {
        Shape::with_zone(layout, checking::of_process(), 0)
    }

    /// [`Shape::new`] for a named cache in any mode, with room for a zone. Size classes have it in
    /// what they are larger than a request.
    pub(crate) fn named(layout: Layout, checking: Checking) -> Option<Shape> {
        Shape::with_zone(layout, checking, if checking >= Checking::Exact { ZONE_BYTES } else { 0 })
    }

    fn with_zone(layout: Layout, checking: Checking, zone_bytes: usize) -> Option<Shape> {
        let (size, align) = (layout.size(), layout.align());
        if size == 0 || size > OBJECT_BYTES_MAX || align > GRANULE_BYTES {
            return None;
        }
        let room = zone_bytes + canary_bytes(checking);
        let stride = stride_for(size + room, align).or_else(|| stride_for(size, align))?;
        let granules = match stride {
            0..=1088 => 1,
            1089..=2112 => 2,
            2113..=4160 => 4,
            _ => 8,
        };
        let slab_objects = (granules * GRANULE_BYTES / stride).min(slab::OBJECTS_MAX);
        Some(Shape::of_slab(size, stride, granules, slab_objects, checking))
    }

    /// The shape for objects that are alone in their slabs, from 64 KiB to 1 MiB.
    pub(crate) fn alone(size: usize) -> Shape {
        let checking = checking::of_process();
        let stride = (size + canary_bytes(checking)).next_multiple_of(GRANULE_BYTES);
        Shape::of_slab(size, stride, stride / GRANULE_BYTES, 1, checking)
    }

    fn of_slab(
        size: usize,
        stride: usize,
        granules: usize,
        slab_objects: usize,
        checking: Checking,
    ) -> Shape {
        let (holds_bytes, objects_max) = match checking {
            Checking::Plain if slab_objects == 1 => (SHEAF_HOLDS_BYTES_ALONE, 1),
            Checking::Plain => (SHEAF_HOLDS_BYTES, slab::OBJECTS_MAX),
            Checking::Hardened | Checking::Exact => {
                (SHEAF_HOLDS_BYTES_HARDENED, slab::HARDENED_OBJECTS_MAX)
            }
            Checking::Debug => (SHEAF_HOLDS_BYTES_HARDENED, slab::DEBUG_OBJECTS_MAX),
        };
        let sheaf_objects = (holds_bytes / stride).clamp(1, Sheaf::OBJECTS_MAX);
        let reciprocal = u64::MAX / stride as u64 + 1;
        let slab_objects = slab_objects.min(objects_max);
        let none = Shape::NONE;
        let mut shape = Shape {
            size,
            stride,
            reciprocal,
            granules,
            slab_objects,
            sheaf_objects,
            checking,
            ..none
        };
        let is_quick = matches!(checking, Checking::Hardened | Checking::Exact);
        if is_quick && shape.has_canary() && !shape.is_alone() {
            shape.quick_bytes = granules * GRANULE_BYTES;
        }
        shape
    }

    /// False where every call takes a slow path of its own, and frees wait in a quarantine.
    pub(crate) fn is_plain(&self) -> bool {
        self.checking == Checking::Plain
    }

    /// True where an object ends in a canary, which is its state, see `records::object_bytes`.
    pub(crate) fn has_canary(&self) -> bool {
        !self.is_plain() && !self.unreadable && self.stride - self.size >= CANARY_BYTES
    }

    /// True where what is behind the requested bytes is checked, see `records::bounds`.
    pub(crate) fn has_zone(&self) -> bool {
        self.checking >= Checking::Exact && self.has_canary()
    }

    /// True where the contents of free objects are the allocator's to clear and to check.
    pub(crate) fn may_clear(&self) -> bool {
        self.constructor.is_none() && !self.typesafe && !self.unreadable
    }

    /// False where free objects have contents: those of a constructor, the poison of a debug cache,
    /// or what late readers of a type-stable cache still read.
    pub(crate) fn may_discard(&self) -> bool {
        self.may_clear() && self.checking != Checking::Debug
    }

    /// True when each object is alone in its slab.
    pub(crate) fn is_alone(&self) -> bool {
        self.slab_objects == 1
    }

    /// The first granule of the slab that contains a granule where an object starts. Slabs of
    /// several objects are aligned to their size.
    pub(crate) fn first_granule(&self, granule: Granule) -> Granule {
        if self.is_alone() { granule } else { granule.align_down(self.granules) }
    }

    /// True where objects share a line with others, or two lines that are fetched together, and
    /// what is freed is soon allocated again.
    pub(crate) fn shares_lines(&self) -> bool {
        self.stride < LINES_BYTES && self.is_plain()
    }

    /// The alignment of slabs in granules: their size where that is a power of two.
    pub(crate) fn slab_align(&self) -> usize {
        if self.granules.is_power_of_two() { self.granules } else { 1 }
    }

    /// The cache's name.
    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Index of the object at `offset` bytes in its slab, or `None` when no object starts there.
    ///
    /// With M = ceil(2^64 / stride), the high half of offset * M is offset / stride and the low
    /// half is below M exactly when the division has no remainder, for offsets and strides below
    /// 2^32 (Lemire, Kaser, Kurz: "Faster remainder by direct computation", 2019).
    #[inline]
    pub(crate) fn index_of(&self, offset: usize) -> Option<usize> {
        let product = u128::from(self.reciprocal) * offset as u128;
        let index = (product >> 64) as usize;
        ((product as u64) < self.reciprocal && index < self.slab_objects).then_some(index)
    }

    /// Number of objects of a cache's first sheaves; 0 when it begins without.
    pub(crate) fn sheaf_objects_min(&self) -> usize {
        let least = usize::from(!self.is_plain() && self.stride <= SHEAF_HOLDS_BYTES_HARDENED);
        (SHEAF_BYTES_START / self.stride).clamp(least, SHEAF_OBJECTS_START)
    }
}

/// Room for the canary behind an object.
fn canary_bytes(checking: Checking) -> usize {
    if checking == Checking::Plain { 0 } else { CANARY_BYTES }
}

/// The distance of objects, or `None` when it would be out of range.
///
/// The low bits of an address select a set of a CPU's cache, so objects at multiples of 1 KiB
/// compete for few sets. The first lines of 4 KiB objects share one of 64 sets, which has 12 lines
/// in a 48 KiB cache. One more line between objects spreads them. (Slab colouring, from Bonwick,
/// "The Slab Allocator", 1994, section 4, moves whole slabs and leaves neighbours in conflict.)
#[must_use]
pub const fn stride_for(size: usize, align: usize) -> Option<usize> {
    const LINE_BYTES: usize = 64;
    let stride = size.next_multiple_of(if align < 8 { 8 } else { align });
    if stride > OBJECT_BYTES_MAX {
        return None;
    }
    let conflicts = stride.is_multiple_of(1024) && align <= LINE_BYTES;
    if conflicts && stride < OBJECT_BYTES_MAX {
        return Some(stride + LINE_BYTES);
    }
    Some(stride)
}

#[cfg(test)]
#[path = "../../tests/unit/shape.rs"]
mod tests;
