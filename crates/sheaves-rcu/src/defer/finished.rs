//! Waiting for grace periods without blocking a thread: futures.
//!
//! The library's thread waits for their grace periods and wakes them. So wakers never run in a
//! thread that only polls or synchronizes, nor in a signal handler. Where there can be no such
//! thread, or it has not begun yet, or it may wait for the caller, a future asks to be polled again
//! at once, and leads itself.

use core::cell::UnsafeCell;
use core::future::Future;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::work::futures::{self, Node};
use super::work::{driver, reclaimer, requests};
use crate::grace::cookie::Cookie;
use crate::grace::expedite::Urgency;

/// A future that is ready after a grace period. See [`Cookie::finished`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Finished {
    cookie: Cookie,
    node: UnsafeCell<Node>,
    _pinned: PhantomPinned,
}

// SAFETY: the node is used under the lock only, wherever the future is.
unsafe impl Send for Finished {}
// SAFETY: a shared future gives access to nothing.
unsafe impl Sync for Finished {}

impl Cookie {
    /// A future that is ready when the cookie has passed. Requests its grace period.
    ///
    /// A future that has to wait starts the library's thread, for which libc allocates. In the
    /// child of a fork the forking thread may poll and drop its futures; no thread wakes one that
    /// waited before the fork.
    ///
    /// ```
    /// # mod sheaves { pub use sheaves_rcu as rcu; }
    /// # async fn replace() {
    /// let cookie = sheaves::rcu::Cookie::get();
    /// cookie.finished().await;
    /// # }
    /// ```
    pub fn finished(self) -> Finished {
        self.request(Urgency::Normal);
        let node = Node::of(self.to_bits());
        Finished { cookie: self, node: UnsafeCell::new(node), _pinned: PhantomPinned }
    }
}

impl Future for Finished {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.cookie.poll() {
            return Poll::Ready(());
        }
        // SAFETY: the node is pinned, and taken off before it ends.
        unsafe { futures::enlist(self.node.get(), Some(context.waker().clone())) };
        // The library's thread waits for a deferred call or a waker that awaits this.
        let may_wait = driver::is_inside_call() || reclaimer::is_reclaimer();
        let is_woken = requests::wake_reclaimer(true) && reclaimer::has_begun();
        if may_wait || !is_woken {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        // SAFETY: the node is valid until this returns.
        unsafe { futures::enlist(self.node.get(), None) };
    }
}
