//! What libc, the loader and sanitizers define, or do not: by addresses that the linker leaves null
//! where a symbol is missing. On architectures without a file of their own all are null.

use super::area::weak_address;

/// True while libc knows that the process has had no second thread. False where libc does not tell,
/// and for ever after the first start of a thread, also in the child of a fork.
pub fn is_single_threaded() -> bool {
    let flag: *const u8 = weak_address!("__libc_single_threaded");
    // SAFETY: a flag of libc, valid for ever.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// The top of the main thread's stack, 0 where libc does not tell.
pub(crate) fn libc_stack_end() -> usize {
    let end: *const usize = weak_address!("__libc_stack_end");
    // SAFETY: a variable of libc or of the dynamic linker, valid for ever.
    if end.is_null() { 0 } else { unsafe { end.read_volatile() } }
}

/// The dynamic section of the object that this code is in: pairs of a tag and a value. Null in a
/// static program.
pub(crate) fn dynamic_section() -> *const [usize; 2] {
    weak_address!("_DYNAMIC")
}

/// libc's `_dl_find_object`, which finds a loaded object without a lock; null where it lacks it.
pub(crate) fn dl_find_object() -> *const core::ffi::c_void {
    weak_address!("_dl_find_object")
}

/// libc's rseq area as an offset from the thread pointer, or `None` where libc registered none.
pub fn libc_rseq_offset() -> Option<isize> {
    let offset: *const isize = weak_address!("__rseq_offset");
    let size: *const u32 = weak_address!("__rseq_size");
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: libc's constant, set before any program code runs.
    let registered = unsafe { size.read_volatile() } > 0;
    // SAFETY: as above.
    let offset = unsafe { offset.read_volatile() };
    registered.then_some(offset)
}
