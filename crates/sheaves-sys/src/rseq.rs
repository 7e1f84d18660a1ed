//! Registration of a `struct rseq`: `rseq(2)`, Linux 4.18.
//!
//! glibc 2.35 and later registers one for every thread. This call is for programs where it did not
//! (older glibc, other libc, `GLIBC_TUNABLES=glibc.pthread.rseq=0`).

use core::ffi::c_void;
use core::mem::offset_of;

use crate::thread::key::Key;
use crate::tls::RseqArea;
use crate::{sandbox, thread, tls};

/// Offset of `rseq_cs` in the area, in bytes.
pub const RSEQ_CS_OFFSET: usize = offset_of!(RseqArea, rseq_cs);
/// Offset of `cpu_id` in the area, in bytes.
pub const CPU_ID_OFFSET: usize = offset_of!(RseqArea, cpu_id);
/// Offset of `mm_cid` in the area, in bytes.
pub const MM_CID_OFFSET: usize = offset_of!(RseqArea, mm_cid);

const _: () = assert!(size_of::<RseqArea>() == 32 && MM_CID_OFFSET == 24);

/// The signature that precedes every abort handler (`RSEQ_SIG`); glibc registers the same one. On
/// aarch64 it is the instruction `brk #0x45e0`.
pub const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xD428_BC00 } else { 0x5305_3053 };

/// `RSEQ_FLAG_UNREGISTER`.
const FLAG_UNREGISTER: libc::c_int = 1;

/// How many bytes of `struct rseq` this kernel maintains: 28 with `mm_cid`, and the original 20
/// before Linux 6.3, where the auxiliary vector has no such entry.
pub fn feature_bytes() -> usize {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    crate::process::auxiliary(AT_RSEQ_FEATURE_SIZE).max(20)
}

/// True where a thread that ends may unmap its own stack before it makes its last system call. The
/// kernel must not find the registered area in that memory, or it kills the process.
const UNMAPS_OWN_STACK: bool = cfg!(target_env = "musl");
/// The round of destructors, of four, that ends the registration. Rust's run in the first one.
const LAST_ROUND: usize = 2;
/// Ends the registrations of threads; the value is the number of the round.
static ENDING: Key = Key::new();

/// In place of a virtual slot, which the rseq engine does not use: this thread is not registered
/// again. Its registration was refused, or has ended because the thread ends.
const REFUSED: i16 = -2;

/// Registers the calling thread's own area. False where the kernel or seccomp refuses, where the
/// thread has an area already, and at the thread's end. A refusal is remembered: later calls make
/// no system call. Keeps `errno`; async-signal-safe.
///
/// With musl, destructors may use the library for the first time in their first two rounds: later
/// nothing ends the registration before the thread unmaps its stack.
#[must_use]
pub fn register_own() -> bool {
    if !tls::HAS_AREA || tls::virtual_slot() == REFUSED || sandbox::is_entered() {
        return false;
    }
    if UNMAPS_OWN_STACK {
        ENDING.prepare(unregister_own);
        // Where there is no key left, threads do without rseq.
        if !ENDING.set(1) {
            return false;
        }
    }
    let is_registered = call(0);
    if !is_registered {
        tls::set_virtual_slot(REFUSED);
    }
    is_registered
}

/// Ends the registration in the second round of destructors. Those that run after this one work
/// without a slot.
unsafe extern "C" fn unregister_own(round: *mut c_void) {
    if round.addr() < LAST_ROUND {
        let _ = ENDING.set(round.addr() + 1);
        return;
    }
    // Signal handlers do not register the area again.
    tls::set_virtual_slot(REFUSED);
    // A handler must not find the 0 that the kernel leaves: it is the number of a slot.
    thread::with_signals_blocked(|| {
        if call(FLAG_UNREGISTER) {
            // SAFETY: the thread's own words, valid as long as it lives.
            let mm_cid = unsafe { &raw mut (*tls::thread_area()).rseq.mm_cid };
            // SAFETY: as above; the kernel does not write it any more.
            unsafe { mm_cid.write_volatile(-1) };
        }
    });
}

fn call(flags: libc::c_int) -> bool {
    let bytes = size_of::<RseqArea>();
    // SAFETY: the area belongs to this thread, which has it as long as it lives.
    let area = unsafe { &raw mut (*tls::thread_area()).rseq };
    crate::errno::preserve(|| {
        // SAFETY: the kernel checks the area's size and alignment. It writes every field but
        // `rseq_cs`, and nothing else does.
        unsafe { libc::syscall(libc::SYS_rseq, area, bytes, flags, SIGNATURE) == 0 }
    })
}
