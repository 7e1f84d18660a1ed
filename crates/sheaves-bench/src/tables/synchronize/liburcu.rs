//! Waiting for readers with liburcu, in each of its flavours.

use core::ffi::c_void;
use core::ptr::NonNull;

use super::contenders::{Queue, Wait};
use super::flood::Object;
use crate::contenders::liburcu::Flavour;

pub(super) struct Waiter {
    pub(super) flavour: Flavour,
}

impl Wait for Waiter {
    fn enter_thread(&self) {
        // SAFETY: the thread is not registered: workloads leave what they have entered.
        unsafe { (self.flavour.enter_thread)() };
    }

    fn leave_thread(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { (self.flavour.leave_thread)() };
    }

    fn pause(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { (self.flavour.pause)() };
    }

    fn resume(&self) {
        // SAFETY: the thread is registered, and has paused.
        unsafe { (self.flavour.resume)() };
    }

    fn read(&self, sections: usize, steps: usize) {
        // SAFETY: the thread has entered, and is in no section.
        unsafe { (self.flavour.busy)(sections, steps) };
    }

    #[inline]
    fn synchronize(&self) {
        // SAFETY: the thread is in no section.
        unsafe { (self.flavour.synchronize)() };
    }

    unsafe fn call(&self, _: Queue, object: NonNull<Object>) {
        // SAFETY: the thread has entered, and the object begins with room for the head.
        unsafe { (self.flavour.call)(object.cast(), end) };
    }
}

/// # Safety
/// The object was queued.
unsafe extern "C" fn end(object: NonNull<c_void>) {
    // SAFETY: the caller's promise.
    unsafe { Object::end(object.cast()) };
}
