//! The thread's area on aarch64, at a constant offset from `tpidr_el0`.

use super::super::layout::ThreadArea;

/// The reader's word of the calling thread; [`no_reader`] while it has none. Two loads, and no
/// call. Async-signal-safe.
///
/// [`no_reader`]: crate::tls::no_reader
#[cfg(not(sheaves_keys))]
#[inline(always)]
pub fn reader() -> *const u64 {
    // SAFETY: the area belongs to this thread and lives as long as it.
    let place = unsafe { &raw const (*thread_area()).reader };
    // SAFETY: as above. Volatile: a signal handler may replace the field, by one store.
    unsafe { place.read_volatile() }
}

/// The calling thread's area.
#[inline(always)]
pub fn thread_area() -> *mut ThreadArea {
    let offset: usize;
    // SAFETY: loads a loader-computed constant.
    unsafe {
        core::arch::asm!(
            "adrp {offset}, :gottprel:sheaves_thread_v0",
            "ldr {offset}, [{offset}, :gottprel_lo12:sheaves_thread_v0]",
            offset = out(reg) offset,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    core::ptr::with_exposed_provenance_mut(thread_pointer() + offset)
}

/// The thread pointer, the base of all thread-local offsets.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let address: usize;
    // SAFETY: reads a register. Readonly: a call may end in another thread.
    unsafe {
        core::arch::asm!(
            "mrs {address}, tpidr_el0",
            address = out(reg) address,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    address
}

/// The address of one of libc's variables, null where libc lacks it.
macro_rules! weak_address {
    ($name:literal) => {{
        let address;
        // SAFETY: loads an address that the linker leaves null where libc lacks the symbol.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {address}, :got:", $name),
                concat!("ldr {address}, [{address}, :got_lo12:", $name, "]"),
                address = out(reg) address,
                options(nostack, preserves_flags, pure, readonly),
            );
        }
        address
    }};
}
pub(crate) use weak_address;
