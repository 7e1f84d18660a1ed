//! Boxes whose memory is freed after a grace period.

use alloc::boxed::Box;
use core::alloc::Layout;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, needs_drop, offset_of};
use core::ops::Deref;
use core::ptr::NonNull;

use sheaves_heap as heap;
use sheaves_rcu::defer::{Head, call_rcu};

/// A value on the heap of Sheaves that readers may still use when its box is dropped.
///
/// Dropping the box defers the destruction of the value until after a grace period; the drop itself
/// is one push, like a free. The type decides how the value is destroyed:
///
/// | `T` | size of a box | destruction |
/// |---|---|---|
/// | without destructor | the size of `T` | freed with a whole sheaf of blocks |
/// | with one | that, and 16 bytes or its alignment | dropped and freed by a deferred callback |
///
/// For linked structures: [`RcuBox::into_raw`] gives a pointer to publish, and [`RcuBox::from_raw`]
/// makes a box again of what was unlinked. Without memory it blocks, or leaks, as
/// [`heap::free_rcu`] does. A child of a fork may drop the boxes that it inherits.
///
/// ```
/// use core::sync::atomic::{AtomicPtr, Ordering};
/// use sheaves::rcu::{self, RcuBox};
///
/// let place = AtomicPtr::new(RcuBox::new([1, 2, 3]).into_raw());
/// {
///     let _guard = rcu::read();
///     // SAFETY: the pointer that is loaded stays valid as long as the guard.
///     let seen = unsafe { &*place.load(Ordering::Acquire) };
///     assert_eq!(seen, &[1, 2, 3]);
/// }
/// let old = place.swap(RcuBox::new([4, 5, 6]).into_raw(), Ordering::AcqRel);
/// // SAFETY: from `into_raw`, and no new reader finds it.
/// drop(unsafe { RcuBox::from_raw(old) });
/// # drop(unsafe { RcuBox::from_raw(place.into_inner()) });
/// ```
///
/// # Invariants
/// `value` is initialised, and `OFFSET` bytes into a block of `LAYOUT` from the heap. The box owns
/// it; readers may share it. If the offset is not 0 the block starts with an idle [`Head`].
pub struct RcuBox<T: Send + Sync + 'static> {
    value: NonNull<T>,
    owns: PhantomData<T>,
}

// SAFETY: a box owns its value, and readers share it.
unsafe impl<T: Send + Sync> Send for RcuBox<T> {}
// SAFETY: a shared box gives shared access to its value only.
unsafe impl<T: Send + Sync> Sync for RcuBox<T> {}

/// The block of a value with a destructor. The head is first, so that both have one address.
#[repr(C)]
struct WithHead<T> {
    head: Head,
    value: T,
}

impl<T: Send + Sync + 'static> RcuBox<T> {
    /// Bytes before the value.
    const OFFSET: usize = if needs_drop::<T>() { offset_of!(WithHead<T>, value) } else { 0 };
    /// Layout of the block. Without a head it may have size 0; the heap serves that, too.
    const LAYOUT: Layout =
        if needs_drop::<T>() { Layout::new::<WithHead<T>>() } else { Layout::new::<T>() };

    /// Moves a value into a box.
    ///
    /// # Panics
    /// When memory is out; see [`RcuBox::try_new`].
    #[must_use]
    pub fn new(value: T) -> RcuBox<T> {
        RcuBox::try_new(value).unwrap_or_else(|_| panic!("out of memory"))
    }

    /// Moves a value into a box, or returns it when memory is out.
    ///
    /// # Errors
    /// The value, when memory is out.
    pub fn try_new(value: T) -> Result<RcuBox<T>, T> {
        let Some(block) = NonNull::new(heap::alloc_layout(Self::LAYOUT)) else { return Err(value) };
        if Self::OFFSET > 0 {
            // SAFETY: no other thread knows the block, and it begins with room for a head.
            unsafe { block.cast::<Head>().write(Head::new()) };
        }
        // SAFETY: inside the block.
        let place = unsafe { block.add(Self::OFFSET) }.cast::<T>();
        // SAFETY: after the head there is room for a value, aligned for it.
        unsafe { place.write(value) };
        Ok(RcuBox { value: place, owns: PhantomData })
    }

    /// The pointer to the value, for [`RcuBox::from_raw`]. Not for `Box`, nor for `free`.
    #[must_use]
    pub fn into_raw(self) -> *mut T {
        ManuallyDrop::new(self).value.as_ptr()
    }

    /// Makes a box again of a pointer from [`RcuBox::into_raw`].
    ///
    /// # Safety
    /// `value` is from [`RcuBox::into_raw`] of this type, and becomes a box once. Only readers that
    /// began before the box is dropped may still use it.
    ///
    /// # Panics
    /// When `value` is null.
    #[must_use]
    pub unsafe fn from_raw(value: *mut T) -> RcuBox<T> {
        let value = NonNull::new(value).expect("a value's address is not null");
        RcuBox { value, owns: PhantomData }
    }
}

impl<T: Send + Sync + 'static> Drop for RcuBox<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: by the invariant inside the block, at its start.
        let block = unsafe { self.value.cast::<u8>().sub(Self::OFFSET) };
        if Self::OFFSET == 0 {
            // SAFETY: by the invariant from the heap with this layout; the box is its owner.
            unsafe { heap::free_rcu_layout(block.as_ptr(), Self::LAYOUT) };
        } else {
            // SAFETY: by the invariant an idle head; the value is `Send` and `'static`.
            unsafe { call_rcu(block.as_ptr().cast(), end::<T>) };
        }
    }
}

/// Drops and frees a value after its grace period.
unsafe extern "C" fn end<T: Send + Sync + 'static>(head: *mut Head) {
    let block = head.cast::<u8>();
    // SAFETY: the head starts the block of a box that was dropped, by the invariant with its value.
    let value = unsafe { block.add(RcuBox::<T>::OFFSET) }.cast::<T>();
    // SAFETY: initialised, and not used any more.
    unsafe { value.drop_in_place() };
    // SAFETY: from the heap with this layout, and not used again.
    unsafe { heap::dealloc_layout(block, RcuBox::<T>::LAYOUT) };
}

impl<T: Send + Sync + 'static> Deref for RcuBox<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by the invariant; the borrow of the box covers the reference.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for RcuBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// ```
/// use sheaves::rcu::RcuBox;
///
/// let small = RcuBox::from(Box::new(1));
/// assert!(small == RcuBox::from(1) && small < RcuBox::new(2));
/// ```
impl<T: Send + Sync + 'static> From<T> for RcuBox<T> {
    fn from(value: T) -> RcuBox<T> {
        RcuBox::new(value)
    }
}

/// Moves the value to a block with room for a deferred callback.
impl<T: Send + Sync + 'static> From<Box<T>> for RcuBox<T> {
    fn from(value: Box<T>) -> RcuBox<T> {
        RcuBox::new(*value)
    }
}

impl<T: Send + Sync + Default + 'static> Default for RcuBox<T> {
    fn default() -> RcuBox<T> {
        RcuBox::new(T::default())
    }
}

impl<T: Send + Sync + 'static> AsRef<T> for RcuBox<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: Send + Sync + PartialEq + 'static> PartialEq for RcuBox<T> {
    fn eq(&self, other: &RcuBox<T>) -> bool {
        **self == **other
    }
}

impl<T: Send + Sync + Eq + 'static> Eq for RcuBox<T> {}

impl<T: Send + Sync + PartialOrd + 'static> PartialOrd for RcuBox<T> {
    fn partial_cmp(&self, other: &RcuBox<T>) -> Option<Ordering> {
        (**self).partial_cmp(other)
    }
}

impl<T: Send + Sync + Ord + 'static> Ord for RcuBox<T> {
    fn cmp(&self, other: &RcuBox<T>) -> Ordering {
        (**self).cmp(other)
    }
}

impl<T: Send + Sync + Hash + 'static> Hash for RcuBox<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
