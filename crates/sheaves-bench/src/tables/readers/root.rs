//! The pointer that readers load, for contenders that bring none of their own.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::contenders::{Chain, Node};

pub(super) struct Root(AtomicPtr<Node>);

impl Root {
    pub(super) fn new(chain: Chain) -> Root {
        Root(AtomicPtr::new(Box::into_raw(chain)))
    }

    /// The chain that is linked.
    ///
    /// # Safety
    /// The reference is used only while something keeps [`Root::swap`]'s caller from freeing it.
    #[inline(always)]
    pub(super) unsafe fn load(&self) -> &Node {
        // Acquire: partner is the exchange in `swap`.
        let node = self.0.load(Ordering::Acquire);
        // SAFETY: never null; the rest is the caller's promise.
        unsafe { &*node }
    }

    /// Replaces the chain; the old one may still be read.
    pub(super) fn swap(&self, chain: Chain) -> NonNull<Node> {
        // Acquire-release: partners are the load above and the exchange before this one.
        let old = self.0.swap(Box::into_raw(chain), Ordering::AcqRel);
        // SAFETY: never null.
        unsafe { NonNull::new_unchecked(old) }
    }

    /// The pointer itself, for contenders that have loads and exchanges of their own.
    pub(super) fn atomic(&self) -> &AtomicPtr<Node> {
        &self.0
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: from a box, and nothing has the root any more.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}
