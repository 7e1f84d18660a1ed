//! Values that were replaced, and that somebody may still read.

use alloc::boxed::Box;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use sheaves_sys::report;

use crate::cookie::Cookie;
use crate::expedite::Urgency;
use crate::grace;

/// A value that is in its cell no more, and that readers may still have.
///
/// It comes back as a `Box` when they are gone: [`Retired::synchronize`] waits for that,
/// [`Retired::try_reclaim`] asks, [`Retired::reclaimed`] is for `async` functions. Dropping it
/// waits, too; inside of a read section that cannot be, so the value is then leaked, with a line on
/// standard error.
///
/// # Invariants
/// `value` is from a box and was unlinked before `cookie` was made.
#[must_use = "dropping it waits for readers"]
pub struct Retired<T> {
    value: NonNull<T>,
    cookie: Cookie,
}

// SAFETY: it is an owner, and a reader's shared access, which needs both.
unsafe impl<T: Send + Sync> Send for Retired<T> {}
// SAFETY: a shared one gives shared access only.
unsafe impl<T: Sync> Sync for Retired<T> {}

impl<T> Retired<T> {
    /// # Safety
    /// The value is from a box, belongs to the caller, and cannot be found any more.
    pub(crate) unsafe fn new(value: NonNull<T>) -> Retired<T> {
        // INVARIANT: the same contract.
        Retired { value, cookie: Cookie::get() }
    }

    /// Waits until nobody reads it any more.
    ///
    /// # Errors
    /// Comes back as it was, with a line on standard error, if the caller itself is inside a read
    /// section.
    pub fn synchronize(self) -> Result<Box<T>, Retired<T>> {
        match self.cookie.wait() {
            // SAFETY: readers are gone.
            Ok(()) => Ok(unsafe { self.into_box() }),
            Err(_) => Err(self),
        }
    }

    /// [`Retired::synchronize`], and never in line behind others.
    ///
    /// # Errors
    /// As there.
    pub fn synchronize_expedited(self) -> Result<Box<T>, Retired<T>> {
        match self.cookie.wait_expedited() {
            // SAFETY: readers are gone.
            Ok(()) => Ok(unsafe { self.into_box() }),
            Err(_) => Err(self),
        }
    }

    /// The value if nobody reads it any more. Never blocks; brings a grace period on its way.
    ///
    /// # Errors
    /// Comes back as it was if somebody may read it.
    pub fn try_reclaim(self) -> Result<Box<T>, Retired<T>> {
        self.cookie.request(Urgency::Normal);
        if self.cookie.poll() {
            // SAFETY: readers are gone.
            Ok(unsafe { self.into_box() })
        } else {
            Err(self)
        }
    }

    /// The value once nobody reads it any more.
    pub async fn reclaimed(self) -> Box<T> {
        self.cookie.finished().await;
        // SAFETY: readers are gone.
        unsafe { self.into_box() }
    }

    /// Drops the value once nobody reads it any more, in another thread; see [`fn@crate::defer`].
    ///
    /// Never blocks; allocates a box of two words. Values without a destructor only have their
    /// memory freed there.
    pub fn defer(self)
    where
        T: Send + 'static,
    {
        struct Owned<T>(NonNull<T>);
        // SAFETY: it owns the value, which may be sent.
        unsafe impl<T: Send> Send for Owned<T> {}

        let owned = Owned(ManuallyDrop::new(self).value);
        crate::defer::defer(move || {
            let owned = owned;
            // SAFETY: from a box, by the invariant, and readers are gone.
            drop(unsafe { Box::from_raw(owned.0.as_ptr()) });
        });
    }

    /// The moment when it was replaced.
    #[must_use]
    pub fn cookie(&self) -> Cookie {
        self.cookie
    }

    /// # Safety
    /// No reader has the value.
    unsafe fn into_box(self) -> Box<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: by the invariant; `this` is not dropped.
        unsafe { Box::from_raw(this.value.as_ptr()) }
    }
}

/// Readers may have it, and so may its owner.
impl<T> core::ops::Deref for Retired<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as this does, and is shared.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for Retired<T> {
    fn drop(&mut self) {
        if !self.cookie.poll() {
            if grace::waits_for_itself() {
                report::report(format_args!("rcu: a retired value is leaked: dropped by a reader"));
                return;
            }
            grace::wait_for(self.cookie.to_bits(), Urgency::Normal);
        }
        // SAFETY: from a box, and readers are gone.
        drop(unsafe { Box::from_raw(self.value.as_ptr()) });
    }
}

impl<T: fmt::Debug> fmt::Debug for Retired<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retired").field(&**self).finish()
    }
}
