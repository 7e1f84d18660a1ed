//! What the protocols take from the machine. The models have their own: loom's atomics, and
//! threads that are not told apart.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use sheaves_sys::tls::thread_pointer;
