//! Deferred callbacks, and memory that is freed after a grace period.

use core::ffi::{c_int, c_void};
use core::mem::transmute;

use sheaves_heap::entry::jump_with_frame;
use sheaves_heap::guard;
use sheaves_rcu::defer::{self, BarrierError, Call, Channel, Head};
use sheaves_sys::errno::{EAGAIN, EDEADLK, EINVAL};
use sheaves_sys::stack::Frame;

/// A member of an object, 16 bytes, by which the object is deferred. Zero bytes are an idle head.
#[repr(C)]
#[derive(Debug)]
pub struct SheavesHead {
    reserved: [u64; 2],
}

const _: () = {
    assert!(size_of::<SheavesHead>() == size_of::<Head>());
    assert!(align_of::<SheavesHead>() == align_of::<Head>());
};

/// The callback for a deferred head.
pub type SheavesCall = Option<unsafe extern "C" fn(head: *mut SheavesHead)>;

/// Deferred blocks of the heap that contain a head.
static BLOCKS: Channel = Channel::new("sheaves_free_rcu_head", |block| {
    // SAFETY: the contract of `sheaves_free_rcu_head`.
    unsafe { sheaves_heap::free(block) };
});

/// What the caller of a function defers, which reports of its block name from then on. `None` for
/// a wrong head, or no callback.
pub(crate) fn noted(
    head: *mut SheavesHead,
    call: SheavesCall,
    frame: Frame,
) -> Option<(*mut Head, Call)> {
    let call = call.filter(|_| !head.is_null() && head.is_aligned())?;
    guard::note_deferral(head.addr(), frame);
    // SAFETY: both take the address of a head; the two types have one layout.
    let call = unsafe { transmute::<unsafe extern "C" fn(*mut SheavesHead), Call>(call) };
    Some((head.cast(), call))
}

/// Defers call(head) until after a grace period, like the kernel's call_rcu.
///
/// As cheap as a free: no atomic instruction, no lock, no allocation. When the slot has no sheaf of
/// heads, or a full one, it takes a short lock, and may start or wake the library's thread. Readers
/// may call it; not for signal handlers. The callback runs in a thread of the library (sheaves-rcu)
/// that is started on demand, with all signals blocked but those that faults raise. Where there is
/// no such thread, it runs in sheaves_rcu_reclaim, sheaves_rcu_barrier and sheaves_srcu_barrier,
/// with the signals of their caller. If no other event starts the work, it starts after
/// SHEAVES_RCU_AGE_MS, 20 ms by default. It may do anything that a thread may do outside of a read
/// section, but pthread_exit, and defer again: the grace period for that begins at once. Callbacks
/// of one thread may run in another order; sheaves_rcu_barrier waits for all earlier ones. After
/// fork() the child inherits pending callbacks, and runs them when it defers, reclaims or waits
/// itself.
///
/// 0; EINVAL for NULL and for a head that is not at a multiple of 8. A head that is deferred
/// already is reported in one line and not deferred again.
///
/// # Safety
/// head is valid, and zero or idle; until the callback only readers use its object.
#[cfg_attr(any(target_arch = "aarch64", target_arch = "x86_64"), unsafe(naked))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_call_rcu(head: *mut SheavesHead, call: SheavesCall) -> c_int {
    jump_with_frame!(call_rcu_from, head, call)
}

/// # Safety
/// As [`sheaves_call_rcu`].
unsafe extern "C" fn call_rcu_from(
    head: *mut SheavesHead,
    call: SheavesCall,
    frame: Frame,
) -> c_int {
    let Some((head, call)) = noted(head, call, frame) else { return EINVAL };
    // SAFETY: the same contract.
    unsafe { defer::call_rcu(head, call) };
    0
}

/// sheaves_call_rcu as soon as possible: wakes the library's thread, and interrupts the CPUs.
///
/// # Safety
/// As sheaves_call_rcu.
#[cfg_attr(any(target_arch = "aarch64", target_arch = "x86_64"), unsafe(naked))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_call_rcu_hurry(
    head: *mut SheavesHead,
    call: SheavesCall,
) -> c_int {
    jump_with_frame!(call_rcu_hurry_from, head, call)
}

/// # Safety
/// As [`sheaves_call_rcu`].
unsafe extern "C" fn call_rcu_hurry_from(
    head: *mut SheavesHead,
    call: SheavesCall,
    frame: Frame,
) -> c_int {
    let Some((head, call)) = noted(head, call, frame) else { return EINVAL };
    // SAFETY: the same contract.
    unsafe { defer::call_hurry(head, call) };
    0
}

/// Frees a block of sheaves_malloc and its family after a grace period. NULL is ignored.
///
/// It writes nothing into the block. As cheap as sheaves_free for blocks of up to 1 MiB, which are
/// freed in bulk: when the slot's sheaf is full it takes a short lock, and may start or wake the
/// library's thread. It takes a lock for each larger block. Readers may call it; not for signal
/// handlers. Without memory to record the block, it waits for a grace period and
/// frees the block itself. Inside a read section it cannot wait: then the block is never freed, and
/// the first one is reported in one line.
///
/// # Safety
/// block came from that family, and only readers still use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_free_rcu(block: *mut c_void) {
    // SAFETY: the same contract.
    unsafe { sheaves_heap::free_rcu(block.cast()) };
}

/// sheaves_free_rcu for a block that contains a head, by which it is deferred: it needs no memory,
/// so nothing leaks and it never waits for a grace period. Takes a short lock in each call, and may
/// start or wake the library's thread; blocks are freed one by one. Not for signal handlers. 0,
/// also for a NULL block; EINVAL if the head is not inside the block.
///
/// # Safety
/// As there; head is zero or idle.
#[cfg_attr(any(target_arch = "aarch64", target_arch = "x86_64"), unsafe(naked))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_free_rcu_head(
    block: *mut c_void,
    head: *mut SheavesHead,
) -> c_int {
    jump_with_frame!(free_rcu_head_from, block, head)
}

/// # Safety
/// As [`sheaves_free_rcu_head`].
unsafe extern "C" fn free_rcu_head_from(
    block: *mut c_void,
    head: *mut SheavesHead,
    frame: Frame,
) -> c_int {
    if block.is_null() {
        return 0;
    }
    // SAFETY: a block by the contract.
    let bytes = unsafe { sheaves_heap::usable_size(block.cast()) };
    let offset = head.addr().wrapping_sub(block.addr());
    let last = bytes.checked_sub(size_of::<Head>());
    let is_inside = last.is_some_and(|last| offset <= last && offset.is_multiple_of(8));
    if head.is_null() || !is_inside {
        return EINVAL;
    }
    guard::note_deferral(block.addr(), frame);
    // SAFETY: the same contract; the head is inside the block.
    unsafe { BLOCKS.free_later_with(head.cast(), block.cast(), bytes) };
    0
}

/// Returns when everything that any thread deferred before has been called or freed. Sleeps;
/// allocates nothing.
///
/// 0; EDEADLK, with a line on standard error, inside a read section or a deferred callback; EAGAIN
/// when a slot could not be drained.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_barrier() -> c_int {
    match defer::barrier() {
        Ok(()) => 0,
        Err(BarrierError::InsideReader | BarrierError::InsideCall) => EDEADLK,
        Err(_) => EAGAIN,
    }
}

/// Starts the work on everything that is deferred, without waiting for it.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_flush() {
    defer::flush();
}

/// Runs in the calling thread what is ready, callbacks included; true if there was any. For main
/// loops of programs that want no thread of the library (SHEAVES_RCU_RECLAIMERS=0). Never waits for
/// readers, but callbacks may. Does nothing inside a read section or a callback, and while another
/// thread reclaims. Not for signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_rcu_reclaim() -> bool {
    defer::reclaim()
}
