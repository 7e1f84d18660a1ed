//! Deferred calls, and memory that is freed once its readers are gone.

use core::ffi::{c_int, c_void};
use core::mem::transmute;

use sheaves_rcu::defer::{self, BarrierError, Call, Channel, Head};
use sheaves_sys::errno::{EAGAIN, EDEADLK, EINVAL};

/// 16 bytes in an object, by which it is deferred. Zero bytes are an idle head.
#[repr(C)]
#[derive(Debug)]
pub struct SheavesHead {
    reserved: [u64; 2],
}

const _: () = {
    assert!(size_of::<SheavesHead>() == size_of::<Head>());
    assert!(align_of::<SheavesHead>() == align_of::<Head>());
};

/// What is called for a head that was deferred.
pub type SheavesCall = Option<unsafe extern "C" fn(head: *mut SheavesHead)>;

/// Blocks of the heap that have a head.
static BLOCKS: Channel = Channel::new("sheaves_free_rcu_head", free_block);

/// # Safety
/// As [`sheaves_heap::free`].
unsafe fn free_block(block: *mut u8) {
    // SAFETY: the same contract.
    unsafe { sheaves_heap::free(block) };
}

/// The call as the layer below has it.
fn call_of(call: SheavesCall) -> Option<Call> {
    // SAFETY: both take the address of a head, which has one layout under two names.
    call.map(|is| unsafe { transmute::<unsafe extern "C" fn(*mut SheavesHead), Call>(is) })
}

/// Calls call with head once everybody who reads now is gone.
///
/// As cheap as a free: no atomic instruction, no lock, nothing woken, nothing allocated. Readers
/// may call it; not for signal handlers. The call runs in a thread of the library (sheaves-rcu),
/// which starts when it is needed and has all signals blocked; 20 ms later at the latest where
/// nothing comes first. It may do anything that a thread may do outside of a read section, and
/// defer again. Calls of one thread may change their order; sheaves_rcu_barrier keeps it. A child
/// of fork() inherits what is pending, and does it when it defers something itself, polls, or
/// waits.
///
/// 0; EINVAL for NULL. A head that is deferred already is reported in one line and not deferred
/// again.
///
/// # Safety
/// head is valid, and zero or idle, and only readers use its object until the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_call_rcu(head: *mut SheavesHead, call: SheavesCall) -> c_int {
    let (Some(call), false) = (call_of(call), head.is_null()) else { return EINVAL };
    // SAFETY: the same contract.
    unsafe { defer::call_rcu(head.cast(), call) };
    0
}

/// sheaves_call_rcu, as soon as can be: wakes the library's thread, and interrupts the processors.
///
/// # Safety
/// As sheaves_call_rcu.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_call_rcu_hurry(
    head: *mut SheavesHead,
    call: SheavesCall,
) -> c_int {
    let (Some(call), false) = (call_of(call), head.is_null()) else { return EINVAL };
    // SAFETY: the same contract.
    unsafe { defer::call_hurry(head.cast(), call) };
    0
}

/// Frees a block of sheaves_malloc and its family once everybody who reads now is gone. NULL is
/// ignored.
///
/// Nothing is written into the block, and no thread is woken. As cheap as sheaves_free for blocks
/// of up to 32 KiB, which come back in bulk; takes a short lock for each larger one. Readers may
/// call it; not for signal handlers. Where there is no memory to remember the block it blocks:
/// waits for readers and frees the block itself; inside of a read section, where that cannot be,
/// the block is never freed, with a line on standard error for the first one.
///
/// # Safety
/// block came from that family, and nobody but readers uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_free_rcu(block: *mut c_void) {
    // SAFETY: the same contract.
    unsafe { sheaves_heap::free_rcu(block.cast()) };
}

/// sheaves_free_rcu with a head in the block for the case that there is no memory: never blocks but
/// for short locks, and never leaks. 0; EINVAL where the head does not lie in the block.
///
/// # Safety
/// As there; and head is zero or idle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_free_rcu_head(
    block: *mut c_void,
    head: *mut SheavesHead,
) -> c_int {
    if block.is_null() {
        return EINVAL;
    }
    // SAFETY: a block by the contract.
    let bytes = unsafe { sheaves_heap::usable_size(block.cast()) };
    let offset = head.addr().wrapping_sub(block.addr());
    let last = bytes.checked_sub(size_of::<Head>());
    let is_inside = last.is_some_and(|last| offset <= last && offset.is_multiple_of(8));
    if head.is_null() || !is_inside {
        return EINVAL;
    }
    // SAFETY: the same contract; the head lies in the block.
    unsafe { BLOCKS.free_later_with(head.cast(), block.cast(), bytes) };
    0
}

/// Returns when everything that was deferred before, by whatever thread, has been called or freed.
/// Sleeps; allocates nothing.
///
/// 0; EDEADLK, with a line on standard error, inside of a read section or of a deferred call;
/// EAGAIN where a slot could not be reached.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_barrier() -> c_int {
    match defer::barrier() {
        Ok(()) => 0,
        Err(BarrierError::InsideReader | BarrierError::InsideCall) => EDEADLK,
        Err(_) => EAGAIN,
    }
}

/// Has everything that is deferred done soon, without waiting for that.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_flush() {
    defer::flush();
}

/// Does what is ready in the calling thread, calls included; true if there was something. For main
/// loops of programs that want no thread of the library (SHEAVES_RCU_RECLAIMERS=0). Never waits for
/// readers.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_drive() -> bool {
    defer::poll()
}
