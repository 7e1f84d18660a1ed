//! Profiles of the heap: which calls allocated the memory that is in use.
//!
//! Off, they cost nothing. On, about one allocation in `rate` bytes is recorded, with its callers
//! by frame pointers: programs have these if they are compiled with `-fno-omit-frame-pointer`, or
//! `-C force-frame-pointers`. Otherwise only the innermost caller is known. The samples stand for
//! what is allocated: see [`sheaves_slab::sampling`], which describes the text of a dump.
//!
//! Objects that were allocated before profiling was turned on are not known.
//!
//! A free through the owner map, such as C's, ends the record of a sample. Frees that know the
//! layout (of Rust's global allocator), and those of caches, read no map. Where a sample is freed
//! so and its memory soon allocated again, the record still names the earlier caller; sums over all
//! callers of a size class or a cache are right all the same.
//!
//! ```
//! use sheaves_heap::profile;
//!
//! assert!(profile::start(profile::RATE_BYTES));
//! let block = sheaves_heap::malloc(100_000);
//! let mut text = String::new();
//! profile::dump(&mut text)?;
//! assert!(text.starts_with("sheaves heap profile 1\n"));
//! profile::stop();
//! // SAFETY: from this heap, and not used after.
//! unsafe { sheaves_heap::free(block) };
//! # Ok::<(), core::fmt::Error>(())
//! ```

use core::fmt::Write as _;

use sheaves_sys::{errno, process};

use crate::report::{Flush, Output};

pub use sheaves_slab::sampling::{RATE_BYTES, RATE_BYTES_MAX, RATE_BYTES_MIN, dump, stop};

/// Takes samples from now on, on average one in `rate` bytes, from [`RATE_BYTES_MIN`] to
/// [`RATE_BYTES_MAX`]; forgets earlier ones. False when memory is out.
///
/// Interrupts the CPUs that run this process.
pub fn start(rate: usize) -> bool {
    crate::start::start() && sheaves_slab::sampling::start(rate)
}

/// Writes a dump to a file descriptor, and after it a line `maps` and `/proc/self/maps`, which lead
/// from addresses to functions. Text that the descriptor does not accept is lost.
pub fn dump_to(fd: i32) {
    errno::preserve(|| {
        write(&mut |line| line.flush_to(fd));
        process::copy_file(c"/proc/self/maps", fd);
    });
}

/// Writes a dump and the line `maps` by a function, as [`crate::report::write`].
pub fn write(flush: &mut Flush<'_>) -> i32 {
    Output::print(flush, |out| {
        dump(out)?;
        writeln!(out, "maps")
    })
}
