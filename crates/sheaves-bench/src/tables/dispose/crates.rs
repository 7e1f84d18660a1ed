//! Other crates, used as their documentation shows: each object under a guard of its own.
//!
//! Where an object is not from the global allocator, it is deferred by the form that takes a
//! function.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use crossbeam_epoch::Owned;
use seize::Guard;

use super::memory::{Memory, OBJECT_BYTES, Object, free, fresh};
use crate::contenders::deferral::Deferral;
use crate::contenders::deferred_bytes;

struct Counted {
    content: [u64; OBJECT_BYTES / 8],
}

impl Counted {
    /// Only one word is written, as by the other contenders.
    #[inline]
    fn boxed() -> Box<Counted> {
        let mut object = Box::<Counted>::new_uninit();
        // SAFETY: the field is in the box.
        let content = unsafe { &raw mut (*object.as_mut_ptr()).content };
        let word = content.cast::<u64>().wrapping_add(2);
        // SAFETY: in the box; volatile, so that the write is not dropped.
        unsafe { word.write_volatile(14) };
        // SAFETY: any bytes are numbers, and nothing reads them.
        unsafe { object.assume_init() }
    }
}

impl Drop for Counted {
    #[inline]
    fn drop(&mut self) {
        deferred_bytes::add_freed(OBJECT_BYTES);
    }
}

/// `crossbeam-epoch`: `defer_destroy`.
pub(super) struct Crossbeam;

impl Deferral for Crossbeam {
    #[inline]
    fn dispose(&self) {
        let guard = crossbeam_epoch::pin();
        let object = Owned::<Counted>::from(Counted::boxed()).into_shared(&guard);
        // SAFETY: nothing else has its address.
        unsafe { guard.defer_destroy(object) };
    }

    fn flush_thread(&self) {
        crossbeam_epoch::pin().flush();
    }
}

/// `crossbeam-epoch` with another allocator: `defer_unchecked`.
#[derive(Debug, Default)]
#[cfg(feature = "peers")]
pub(super) struct CrossbeamWith<M>(PhantomData<M>);

#[cfg(feature = "peers")]
impl<M: Memory> Deferral for CrossbeamWith<M> {
    #[inline]
    fn dispose(&self) {
        let guard = crossbeam_epoch::pin();
        let object = fresh::<M>();
        let end = move || {
            // SAFETY: of that memory, and nothing else has its address.
            unsafe { free::<M>(object) };
        };
        // SAFETY: the call may run anywhere and later: it owns the object.
        unsafe { guard.defer_unchecked(end) };
    }

    fn flush_thread(&self) {
        crossbeam_epoch::pin().flush();
    }
}

/// `seize`: `defer_retire`, in batches of its usual size.
#[derive(Debug, Default)]
pub(super) struct Seize<M> {
    collector: seize::Collector,
    memory: PhantomData<M>,
}

/// # Safety
/// The object is of that memory, and its readers are gone.
unsafe fn reclaim<M: Memory>(object: *mut Object, _: &seize::Collector) {
    // SAFETY: never null.
    let object = unsafe { NonNull::new_unchecked(object) };
    // SAFETY: the caller's promise.
    unsafe { free::<M>(object) };
}

impl<M: Memory> Deferral for Seize<M> {
    #[inline]
    fn dispose(&self) {
        let guard = self.collector.enter();
        let object = fresh::<M>();
        // SAFETY: nothing else has its address.
        unsafe { guard.defer_retire(object.as_ptr(), reclaim::<M>) };
    }

    fn flush_thread(&self) {
        self.collector.enter().flush();
    }

    fn finish(&self) {
        // SAFETY: no other thread uses the collector while this one finishes.
        unsafe { self.collector.reclaim_all() };
    }
}

/// `haphazard`: `retire_ptr`, in its global domain. It allocates a record for each object, which
/// comes from the global allocator in any case.
#[derive(Debug, Default)]
pub(super) struct Haphazard<M>(PhantomData<M>);

struct Held<M: Memory> {
    object: NonNull<Object>,
    memory: PhantomData<M>,
}

impl<M: Memory> Deref for Held<M> {
    type Target = Object;

    fn deref(&self) -> &Object {
        // SAFETY: the box owns the object.
        unsafe { self.object.as_ref() }
    }
}

impl<M: Memory> Drop for Held<M> {
    fn drop(&mut self) {
        // SAFETY: the box owned the object, which is of that memory.
        unsafe { free::<M>(self.object) };
    }
}

// SAFETY: both directions keep the address.
unsafe impl<M: Memory> haphazard::raw::Pointer<Object> for Held<M> {
    fn into_raw(self) -> *mut Object {
        core::mem::ManuallyDrop::new(self).object.as_ptr()
    }

    unsafe fn from_raw(object: *mut Object) -> Held<M> {
        // SAFETY: from `into_raw`, or a fresh object, so never null.
        Held { object: unsafe { NonNull::new_unchecked(object) }, memory: PhantomData }
    }
}

impl<M: Memory> Deferral for Haphazard<M> {
    #[inline]
    fn dispose(&self) {
        let object = fresh::<M>();
        let domain = haphazard::Domain::global();
        // SAFETY: nothing else has its address, and the domain lives for ever.
        unsafe { domain.retire_ptr::<Object, Held<M>>(object.as_ptr()) };
    }

    fn finish(&self) {
        haphazard::Domain::global().eager_reclaim();
    }
}
