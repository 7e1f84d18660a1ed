//! Tells a layer above which objects are allocated and freed, for its profiles of memory.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::rows;

/// Functions that are called with the address of an object in no slot's row, which is the object's
/// own. They are called without a lock.
#[derive(Debug)]
pub struct Observer {
    /// An object was allocated, of `bytes` in each slot, by the function that `stack` and `frame`
    /// are of: see `sheaves_sys::stack`.
    pub alloc: extern "C" fn(address: usize, bytes: usize, stack: usize, frame: usize),
    /// An object is about to be freed.
    pub free: fn(address: usize),
}

static OBSERVER: AtomicPtr<Observer> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the observer, which is told of all objects from now on, for ever.
pub fn observe(observer: &'static Observer) {
    // Release pairs with the Acquire in `observer`.
    OBSERVER.store(core::ptr::from_ref(observer).cast_mut(), Ordering::Release);
}

#[inline]
fn observer() -> Option<&'static Observer> {
    // Acquire pairs with the Release in `observe`.
    // SAFETY: null or a static.
    unsafe { OBSERVER.load(Ordering::Acquire).as_ref() }
}

/// Called with each object that was allocated.
#[inline]
pub(super) fn allocated(offset: usize, bytes: usize) {
    if observer().is_some() {
        note_alloc(offset, bytes);
    }
}

/// Called with each object before it is freed.
#[inline]
pub(super) fn will_free(offset: usize) {
    if let Some(observer) = observer() {
        (observer.free)(rows::shared() + offset);
    }
}

crate::with_frame! {
    #[cold]
    [] fn note_alloc(offset: usize, bytes: usize) -> () = note_alloc_from;
}

extern "C" fn note_alloc_from(offset: usize, bytes: usize, stack: usize, frame: usize) {
    if let Some(observer) = observer() {
        (observer.alloc)(rows::shared() + offset, bytes, stack, frame);
    }
}
