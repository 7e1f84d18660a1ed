//! Profiles of the heap: which calls allocated the memory that is in use.
//!
//! Off, they cost nothing. On, about one allocation in `rate` bytes is recorded, with its callers
//! by frame pointers: programs have these if they are compiled with `-fno-omit-frame-pointer`, or
//! `-C force-frame-pointers`. Elsewhere libgcc finds the callers, which doubles the time of a
//! sample; it is loaded when a profile is turned on. That takes glibc 2.35 and the libgcc of gcc 12
//! or later, else only the innermost caller is known, and the dump says why. The samples stand for
//! what is allocated: see [`sheaves_slab::internal::sampling`], which describes the text of a dump.
//!
//! Objects that were allocated before profiling was turned on are not known.
//!
//! While a profile is on, blocks go round: what is freed is not what is allocated next, so that
//! each allocation is as likely to be a sample, whatever the program does. `malloc` and `free` have
//! no instruction more, but a program that always frees what it has just allocated touches 32 KiB
//! of blocks, 127 at the most, where it touched one. Of blocks above 2 KiB it touches 16, but no
//! more than half a megabyte.
//!
//! ```
//! # mod sheaves { pub use sheaves_heap as heap; }
//! use sheaves::heap::profile;
//!
//! assert!(profile::start(profile::RATE_BYTES));
//! let block = sheaves::heap::malloc(100_000);
//! let mut text = String::new();
//! profile::dump(&mut text)?;
//! assert!(text.starts_with("sheaves heap profile 1\n"));
//! profile::stop();
//! // SAFETY: from this heap, and not used after.
//! unsafe { sheaves::heap::free(block) };
//! # Ok::<(), core::fmt::Error>(())
//! ```

use core::ffi::CStr;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use sheaves_sys::unwind::{self, Unwinder};
use sheaves_sys::{errno, options, process, report, sandbox, thread};

use crate::report::{Flush, Output};

pub use sheaves_slab::internal::sampling::{
    RATE_BYTES, RATE_BYTES_MAX, RATE_BYTES_MIN, dump, stop,
};

/// Takes samples from now on, on average one in `rate` bytes, from [`RATE_BYTES_MIN`] to
/// [`RATE_BYTES_MAX`]; forgets earlier ones. False when memory is out.
///
/// Interrupts the CPUs that run this process, and loads libgcc.
pub fn start(rate: usize) -> bool {
    let is_started = start_for_tool(rate);
    find_unwinder();
    is_started
}

/// [`start`] for a caller that is in a slow path or has a lock, and calls [`find_unwinder`] later
/// if it can.
#[doc(hidden)]
pub fn start_for_tool(rate: usize) -> bool {
    crate::start::start() && sheaves_slab::internal::sampling::start(rate)
}

/// Loads libgcc for the stacks of samples, once. Not in debug mode, where each allocation is one.
#[doc(hidden)]
pub fn find_unwinder() {
    if !options::DEBUG.is_on() {
        unwind::find();
    }
}

/// [`find_unwinder`] in a thread that ends then, for the library's own one. That must not wait for
/// the loader: a thread in there may wait for it, by `barrier` in a destructor of a plugin.
#[doc(hidden)]
pub fn find_unwinder_apart() {
    // Relaxed, both: a flag, which leads to nothing.
    let is_needed = unwind::state() == Unwinder::NotFound && !options::DEBUG.is_on();
    if is_needed && !IS_FINDING.swap(true, Ordering::Relaxed) && !thread::spawn(find_and_end) {
        IS_FINDING.store(false, Ordering::Relaxed);
    }
}

static IS_FINDING: AtomicBool = AtomicBool::new(false);

fn find_and_end() {
    find_unwinder();
    // Relaxed: as above.
    IS_FINDING.store(false, Ordering::Relaxed);
}

/// Writes a dump to a file descriptor, and after it a line `maps` and `/proc/self/maps`, which lead
/// from addresses to functions, and a line `end`. Returns 0, or the value of `errno` for which text
/// is lost.
pub fn dump_to(fd: i32) -> i32 {
    errno::preserve(|| {
        let mut end = report::Line::new();
        let _ = writeln!(end, "end");
        let dump = write(&mut |line| line.flush_to(fd));
        let maps = process::copy_file(c"/proc/self/maps", fd);
        let end = end.flush_to(fd);
        [dump, maps, end].into_iter().find(|status| *status != 0).unwrap_or(0)
    })
}

/// Writes a dump and the line `maps` by a function, as [`crate::report::write`].
pub fn write(flush: &mut Flush<'_>) -> i32 {
    Output::print(flush, |out| {
        dump(out)?;
        writeln!(out, "maps")
    })
}

/// Writes a dump to a file, which only the user may read. If that fails, a line on `stderr` says
/// so.
pub fn dump_to_file(path: &CStr, stderr: i32) {
    let is_written = errno::preserve(|| process::create_private(path)).is_some_and(|fd| {
        let status = dump_to(fd);
        process::close(fd);
        status == 0
    });
    if !is_written {
        let path = path.to_str().unwrap_or("the file named by SHEAVES_PROF_FILE");
        let text = format_args!(
            "cannot write the heap profile to {path}: check that the folder exists, is writable \
             and has room"
        );
        report::report_to(stderr, text);
    }
}

/// Where a dump is written when memory is short, a C string; null for nowhere.
static PATH: AtomicPtr<core::ffi::c_char> = AtomicPtr::new(core::ptr::null_mut());
/// The process that writes it: not its children by `fork`.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Standard error.
const STDERR: i32 = 2;
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// While profiling is on: writes a dump to a file the first time that the limit is near, and again,
/// over it, the first time that an allocation fails.
pub fn dump_when_short(path: &'static CStr) {
    // Relaxed: published by the Release below.
    PROCESS.store(process::id(), Ordering::Relaxed);
    // Release pairs with the Acquire in `dump_short`.
    PATH.store(path.as_ptr().cast_mut(), Ordering::Release);
    sheaves_slab::internal::limit::once_near(dump_short);
}

/// An allocation has failed.
pub(crate) fn note_failure() {
    // Relaxed: one thread finds false, and nothing is published.
    if sheaves_slab::internal::sampling::rate() != 0 && !HAS_FAILED.swap(true, Ordering::Relaxed) {
        dump_short();
    }
}

fn dump_short() {
    // A sandbox may not permit to ask for the number of the process, either.
    if sandbox::is_entered() {
        return;
    }
    // Acquire pairs with the Release in `dump_when_short`.
    let path = PATH.load(Ordering::Acquire);
    // Relaxed: written before the path.
    let is_ours = !path.is_null() && PROCESS.load(Ordering::Relaxed) == process::id();
    if is_ours && sheaves_slab::internal::sampling::rate() != 0 {
        // SAFETY: from a static C string.
        let path = unsafe { CStr::from_ptr(path) };
        dump_to_file(path, STDERR);
    }
}
