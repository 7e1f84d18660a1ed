//! Objects that are linked by a head inside them, and freed one by one.

use core::ptr::{NonNull, null_mut};

use super::{Cpu, Form, Source};

/// The head of an object: 16 bytes, as in the kernel.
#[derive(Debug)]
#[repr(C)]
struct Head {
    next: *mut Head,
    class: usize,
}

/// Linked objects, the youngest first.
#[derive(Debug)]
pub struct Linked(*mut Head);

// SAFETY: the owner of the list owns the objects.
unsafe impl Send for Linked {}

impl Default for Linked {
    fn default() -> Linked {
        Linked(null_mut())
    }
}

impl Form for Linked {
    type Taken = Linked;

    #[inline]
    unsafe fn add(&mut self, object: NonNull<u8>, class: usize) {
        let head = object.cast::<Head>().as_ptr();
        // SAFETY: every object has room for a head, and this one is not used any more.
        unsafe { head.write(Head { next: self.0, class }) };
        self.0 = head;
    }

    fn take(&mut self) -> Linked {
        core::mem::take(self)
    }

    unsafe fn free<S: Source>(_: &Cpu<Linked>, source: &S, taken: Linked) {
        let mut next = taken.0;
        while let Some(head) = NonNull::new(next) {
            // SAFETY: the list is owned, and every object in it begins with its head.
            let Head { next: after, class } = unsafe { head.read() };
            next = after;
            // SAFETY: a grace period has passed, and the object has left the list.
            unsafe { source.free(head.cast(), class) };
        }
    }
}
