//! Guard samples: a few allocations beside inaccessible pages, in programs in production.
//!
//! One in N samples of the heap (see [`crate::profile`]) lies beside an inaccessible page, and its
//! pages become inaccessible when it is freed; also when it was deferred, once its grace period is
//! over. So an overflow, an underflow or a use after free of it ends in a report on standard error,
//! after which the action of SIGSEGV follows that was there before. A double free, or a free of an
//! address inside the block, is reported, too, and aborts the process. `docs/guard.md` says which
//! blocks take part, and has examples.
//!
//! ```
//! # mod sheaves { pub use sheaves_heap as heap; }
//! use sheaves::heap::guard;
//!
//! assert!(guard::on(16));
//! guard::off();
//! ```

use crate::start::start;

pub use sheaves_slab::internal::sampling::stop_traps as off;
pub use sheaves_slab::internal::trap::{ONE_IN_MAX, note_deferral, one_in};

/// Guards one in `one_in` samples from now on, at most [`ONE_IN_MAX`]. While the heap is not
/// profiled, there is a sample in 512 KiB. Installs a handler of SIGSEGV, which stays.
///
/// False in a hardened process, where frees are checked by other means; when memory has run out, or
/// where the kernel refuses the handler. Interrupts the CPUs that run this process, and loads
/// libgcc as [`crate::profile::start`] does.
pub fn on(one_in: usize) -> bool {
    let is_on = on_for_tool(one_in);
    crate::profile::find_unwinder();
    is_on
}

/// [`on`] for a caller as of [`crate::profile::start_for_tool`].
#[doc(hidden)]
pub fn on_for_tool(one_in: usize) -> bool {
    start() && sheaves_slab::internal::sampling::start_traps(one_in)
}
