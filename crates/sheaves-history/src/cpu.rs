//! The number of the current CPU, read as cheaply as a program can without an rseq critical
//! section.
//!
//! glibc keeps the number of the CPU in the thread's rseq area. Each thread looks up the address of
//! that word once; after that a read is one load from thread-local storage and one from the area.
//! The number may be stale by the time it is used: every user of it must be correct on any slot,
//! and is only slower on the wrong one.

use core::cell::Cell;
use core::ptr::{null, read_volatile};
use core::sync::atomic::AtomicU32;

/// Replaces the area where glibc has not registered one: then every thread uses slot 0.
static NO_AREA: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static CPU_ID: Cell<*const u32> = const { Cell::new(null()) };
}

/// The number of the CPU that runs this thread; 0 if the C library does not know.
#[inline]
pub fn current_cpu() -> usize {
    let known = CPU_ID.get();
    let word = if known.is_null() { find_area() } else { known };
    // SAFETY: the word is in this thread's rseq area or is `NO_AREA`; both outlive the thread. The
    // kernel changes the former without the compiler's knowledge, hence the volatile read.
    unsafe { read_volatile(word) as usize }
}

/// Finds the `cpu_id_start` word, which always holds a valid number.
#[cold]
#[inline(never)]
fn find_area() -> *const u32 {
    let word = registered_area().unwrap_or(NO_AREA.as_ptr());
    CPU_ID.set(word);
    word
}

#[cfg(target_arch = "x86_64")]
fn registered_area() -> Option<*const u32> {
    let offset = symbol(c"__rseq_offset")?.cast::<isize>();
    let size = symbol(c"__rseq_size")?.cast::<u32>();
    // SAFETY: glibc defines this word and never changes it after the start of the process.
    if unsafe { *size } == 0 {
        return None;
    }
    // SAFETY: as above.
    let offset = unsafe { *offset };
    // SAFETY: the function has no precondition. On x86-64 glibc's handle of a thread is its thread
    // pointer, which is the base of the offset.
    let thread_pointer = unsafe { libc::pthread_self() } as usize;
    Some(core::ptr::with_exposed_provenance(thread_pointer.wrapping_add_signed(offset)))
}

#[cfg(not(target_arch = "x86_64"))]
fn registered_area() -> Option<*const u32> {
    None
}

#[cfg(target_arch = "x86_64")]
fn symbol(name: &core::ffi::CStr) -> Option<*const libc::c_void> {
    // SAFETY: the name is a C string, and looking a symbol up changes nothing.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// Number of slots that cover every CPU that may ever run this process: a power of two, so that a
/// larger number can be masked instead of checked.
pub fn slot_count() -> usize {
    // SAFETY: sysconf has no precondition.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(configured).unwrap_or(1).max(1).next_power_of_two()
}

/// Pads to two cache lines, because the hardware fetches them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

#[cfg(test)]
#[path = "../tests/unit/cpu.rs"]
mod tests;
