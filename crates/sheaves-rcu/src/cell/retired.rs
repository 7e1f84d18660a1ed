//! Values that were replaced and that readers may still use.

use alloc::boxed::Box;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use crate::defer::work::driver;
use crate::grace::cookie::Cookie;
use crate::grace::expedite::Urgency;
use crate::grace::period;

/// A value that was replaced in its cell and that readers may still use.
///
/// It comes back as a `Box` after a grace period: [`Retired::synchronize`] waits for that,
/// [`Retired::try_reclaim`] polls; an `async` function awaits [`Cookie::finished`] of its
/// [`Retired::cookie`] first. Dropping it waits, too; but inside a read section, where that would
/// deadlock, and inside a deferred callback it is [`Retired::defer`].
///
/// # Invariants
/// `value` is from a box and was unlinked before `cookie` was made.
#[must_use = "dropping it waits for readers"]
pub struct Retired<T: Send + 'static> {
    value: NonNull<T>,
    cookie: Cookie,
}

// SAFETY: sending it sends the value, which readers share.
unsafe impl<T: Send + Sync + 'static> Send for Retired<T> {}
// SAFETY: a shared reference gives shared access only.
unsafe impl<T: Send + Sync + 'static> Sync for Retired<T> {}

impl<T: Send + 'static> Retired<T> {
    /// # Safety
    /// The value is from a box, belongs to the caller, and has been unlinked.
    pub(crate) unsafe fn new(value: NonNull<T>) -> Retired<T> {
        // INVARIANT: the same contract.
        Retired { value, cookie: Cookie::get() }
    }

    /// Waits for a grace period and returns the value. Sleeps; not for signal handlers.
    ///
    /// # Errors
    /// Returns `self`, with a line on standard error, if the caller is inside a read section.
    pub fn synchronize(self) -> Result<Box<T>, Retired<T>> {
        let has_passed = self.cookie.wait().is_ok();
        self.if_passed(has_passed)
    }

    /// [`Retired::synchronize`] with an expedited grace period.
    ///
    /// # Errors
    /// As for [`Retired::synchronize`].
    pub fn synchronize_expedited(self) -> Result<Box<T>, Retired<T>> {
        let has_passed = self.cookie.wait_expedited().is_ok();
        self.if_passed(has_passed)
    }

    /// Returns the value if a grace period has passed; otherwise advances it. Never blocks.
    ///
    /// # Errors
    /// Returns `self` if readers may still use the value.
    pub fn try_reclaim(self) -> Result<Box<T>, Retired<T>> {
        self.cookie.request(Urgency::Normal);
        let has_passed = self.cookie.poll();
        self.if_passed(has_passed)
    }

    /// Drops the value after a grace period, in another thread, see [`fn@crate::defer`].
    pub fn defer(self) {
        // SAFETY: by the invariant, and `self` is not dropped.
        unsafe { drop_later(ManuallyDrop::new(self).value) };
    }

    /// The snapshot that was taken when the value was replaced.
    #[must_use]
    pub fn cookie(&self) -> Cookie {
        self.cookie
    }

    fn if_passed(self, has_passed: bool) -> Result<Box<T>, Retired<T>> {
        if !has_passed {
            return Err(self);
        }
        // SAFETY: by the invariant; a grace period has passed, and `self` is not dropped.
        Ok(unsafe { Box::from_raw(ManuallyDrop::new(self).value.as_ptr()) })
    }
}

/// Shared access: readers may use the value, too.
impl<T: Send + 'static> core::ops::Deref for Retired<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as `self`, and is only shared.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Send + 'static> Drop for Retired<T> {
    fn drop(&mut self) {
        // A destructor may store into a cell in turn, and runs where its value is dropped.
        let may_wait = !period::is_inside_reader() && !driver::is_inside_call();
        if may_wait && self.cookie.wait().is_ok() {
            // SAFETY: from a box, and a grace period has passed.
            return drop(unsafe { Box::from_raw(self.value.as_ptr()) });
        }
        // SAFETY: by the invariant, and this is the end of `self`.
        unsafe { drop_later(self.value) };
    }
}

/// Drops a value after a grace period, in another thread.
///
/// # Safety
/// From a box that belongs to the caller, and unlinked.
unsafe fn drop_later<T: Send + 'static>(value: NonNull<T>) {
    let address = value.expose_provenance();
    crate::defer::defer(move || {
        let value = with_exposed_provenance_mut::<T>(address.get());
        // SAFETY: by the contract; a grace period has passed, and it is `Send`.
        drop(unsafe { Box::from_raw(value) });
    });
}

impl<T: Send + fmt::Debug + 'static> fmt::Debug for Retired<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retired").field(&**self).finish()
    }
}
