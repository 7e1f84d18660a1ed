//! The thread's area on x86-64, at a constant offset from `fs:[0]`.

use super::super::layout::ThreadArea;

/// The reader's word of the calling thread; [`no_reader`] while it has none. Two loads, and no
/// call. Async-signal-safe.
///
/// [`no_reader`]: crate::tls::no_reader
#[cfg(not(sheaves_keys))]
#[inline(always)]
pub fn reader() -> *const u64 {
    let address: usize;
    // SAFETY: loads a loader-computed constant and a field of the thread's area.
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr [rip + sheaves_thread_v0@GOTTPOFF]",
            "mov {address}, qword ptr fs:[{address} + {reader}]",
            address = out(reg) address,
            reader = const core::mem::offset_of!(ThreadArea, reader),
            options(nostack, pure, readonly),
        );
    }
    core::ptr::with_exposed_provenance(address)
}

/// The calling thread's area.
#[inline]
pub fn thread_area() -> *mut ThreadArea {
    let address: usize;
    // SAFETY: reads the thread pointer and a loader-computed constant; no memory is written.
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr [rip + sheaves_thread_v0@GOTTPOFF]",
            "add {address}, qword ptr fs:[0]",
            address = out(reg) address,
            options(nostack, pure, readonly),
        );
    }
    core::ptr::with_exposed_provenance_mut(address)
}

/// The thread pointer, the base of all thread-local offsets.
#[inline]
pub fn thread_pointer() -> usize {
    let address: usize;
    // SAFETY: `fs:[0]` holds the thread pointer itself (x86-64 TLS ABI).
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr fs:[0]",
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
                concat!("mov {address}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                address = out(reg) address,
                options(nostack, preserves_flags, pure, readonly),
            );
        }
        address
    }};
}
pub(crate) use weak_address;
