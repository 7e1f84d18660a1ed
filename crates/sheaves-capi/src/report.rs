//! Statistics, the engine in use, and the version.

use core::ffi::{c_char, c_int};

use sheaves_heap::report::{self, Format};
use sheaves_sys::errno::EINVAL;

/// Version of the loaded library, as MAJOR.MINOR.PATCH. The header's is SHEAVES_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// For humans.
pub const SHEAVES_FORMAT_TEXT: c_int = 0;
/// For programs.
pub const SHEAVES_FORMAT_JSON: c_int = 1;

/// Prints statistics of the heap and of all caches to a file descriptor, as SHEAVES_FORMAT_TEXT or
/// _JSON. Allocates nothing. 0; EINVAL for another format or a negative descriptor. Text that the
/// descriptor does not accept is lost.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_print_statistics(fd: c_int, format: c_int) -> c_int {
    let format = match format {
        SHEAVES_FORMAT_TEXT => Format::Text,
        SHEAVES_FORMAT_JSON => Format::Json,
        _ => return EINVAL,
    };
    if fd < 0 {
        return EINVAL;
    }
    report::print(fd, format);
    0
}

/// Sums over the whole process.
#[repr(C)]
#[derive(Debug)]
pub struct SheavesStatistics {
    /// Objects and blocks in use, in bytes.
    pub used_bytes: u64,
    /// Free objects in caches.
    pub cached_bytes: u64,
    /// Free memory that will be returned to the kernel soon.
    pub dirty_bytes: u64,
    /// Address space of slabs; large_bytes are not in it.
    pub heap_bytes: u64,
    /// Blocks above 1 MiB.
    pub large_bytes: u64,
    /// Completed grace periods.
    pub grace_periods: u64,
    /// Interrupts of all CPUs, or fences in their place, that these grace periods used.
    pub membarriers: u64,
    /// 1 if readers use fences because membarrier is refused.
    pub readers_fence: u64,
    /// Callbacks and objects that wait for a grace period.
    pub deferred_objects: u64,
    /// Their bytes, as far as they are known.
    pub deferred_bytes: u64,
    /// Bytes of free slabs that were returned to the kernel so far.
    pub purged_bytes: u64,
    /// All bytes that were returned to the kernel so far: also pages between the objects of used
    /// slabs, and mappings.
    pub returned_bytes: u64,
    /// Bytes of slabs that were used again after their pages had been returned, so far.
    pub refilled_bytes: u64,
    /// How often unused memory was looked for.
    pub keeper_looks: u64,
    /// Processor time that this took, in microseconds.
    pub keeper_busy_us: u64,
}

/// Writes sums over the whole process to statistics, as much as the caller's structure has room
/// for: pass sizeof *statistics as bytes. What this library does not know is 0. 0; EINVAL for NULL.
/// Takes each cache's lock briefly.
///
/// # Safety
/// statistics is NULL or valid for bytes bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_get_statistics(
    statistics: *mut SheavesStatistics,
    bytes: usize,
) -> c_int {
    if statistics.is_null() || bytes == 0 {
        return EINVAL;
    }
    let (heap, rcu) = (report::totals(), sheaves_rcu::statistics());
    let defer = sheaves_rcu::defer::statistics();
    let deferred = defer.pending();
    let found = SheavesStatistics {
        used_bytes: heap.used_bytes as u64,
        cached_bytes: heap.cached_bytes as u64,
        dirty_bytes: heap.dirty_bytes as u64,
        heap_bytes: heap.heap_bytes as u64,
        large_bytes: heap.large_bytes as u64,
        grace_periods: rcu.grace_periods,
        membarriers: rcu.membarriers,
        readers_fence: u64::from(rcu.readers_fence),
        deferred_objects: deferred.objects,
        deferred_bytes: deferred.bytes,
        purged_bytes: heap.purged_bytes,
        returned_bytes: heap.returned_bytes,
        refilled_bytes: heap.refilled_bytes,
        keeper_looks: defer.keeper_looks,
        keeper_busy_us: defer.keeper_busy_us,
    };
    // SAFETY: valid for that many bytes by the contract.
    unsafe { crate::write_as_much(statistics, bytes, &found) };
    0
}

/// The engine that executes transactions: "rseq" or "portable".
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_engine() -> *const c_char {
    let _started = sheaves_percpu::Access::get();
    match report::engine_names().0 {
        "rseq" => c"rseq".as_ptr(),
        "portable" => c"portable".as_ptr(),
        _ => c"none".as_ptr(),
    }
}
