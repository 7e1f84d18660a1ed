//! Per-CPU memory and transactions on it.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use sheaves_percpu::internal::current_slot;
use sheaves_percpu::memory::{self, Error, Handle};
use sheaves_percpu::{Access, slot_count};
use sheaves_sys::errno::{EINVAL, ENOMEM};

/// A per-CPU object, with a copy in every slot. A number, 0 for none.
///
/// A slot belongs to a CPU or, where the kernel has it, to a concurrency id (mm_cid): a number of
/// each running thread, unique in the process and as low as possible.
pub type SheavesPercpu = u64;

/// The handle, if the object may have a word at `byte`.
fn word(object: SheavesPercpu, byte: usize) -> Option<Handle> {
    let fits = |is: &Handle| byte.is_multiple_of(8) && byte + 8 <= is.size() && is.align() >= 8;
    Handle::from_bits(object).filter(|_| byte < memory::OBJECT_BYTES_MAX).filter(fits)
}

/// Allocates size bytes, 1 to 32768, in every slot; they are zero. Their address is a multiple of
/// align, a power of two up to 4096; 0 stands for 8. Slots that no thread uses cost no memory.
///
/// 0, and the object in *object; EINVAL for a wrong argument; ENOMEM. May sleep on a lock for
/// microseconds. After fork() the child has a copy of all objects. Where the kernel refuses address
/// space for the slots, the first call of this library that needs them aborts the process with one
/// line.
///
/// # Safety
/// object is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_percpu_alloc(
    size: usize,
    align: usize,
    object: *mut SheavesPercpu,
) -> c_int {
    if object.is_null() {
        return EINVAL;
    }
    match memory::alloc(size, if align == 0 { 8 } else { align }) {
        Ok(handle) => {
            // SAFETY: valid for a write by the contract.
            unsafe { object.write(handle.to_bits()) };
            0
        }
        Err(Error::ZeroSize | Error::TooLarge | Error::BadAlignment) => EINVAL,
        Err(_) => ENOMEM,
    }
}

/// Frees an object; 0 is ignored. May sleep on a lock. EINVAL, and nothing happens, for an object
/// that is not allocated. A later object may have the same number: a second free may be that of
/// another object.
///
/// # Safety
/// The object is not used any more, in any slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_percpu_free(object: SheavesPercpu) -> c_int {
    if object == 0 {
        return 0;
    }
    let Some(handle) = Handle::from_bits(object) else { return EINVAL };
    // SAFETY: the same contract.
    unsafe { memory::free(handle) }.map_or(EINVAL, |()| 0)
}

/// Adds to the 64-bit word at offset byte of the object in the current slot, wrapping.
///
/// One transaction: no atomic instruction, no lock. Never waits; async-signal-safe. EINVAL unless
/// byte is a multiple of 8, the word is inside the object and the object's alignment is at least 8.
///
/// # Safety
/// The object is allocated, and only transactions change these bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_percpu_add(
    object: SheavesPercpu,
    byte: usize,
    amount: u64,
) -> c_int {
    let Some(handle) = word(object, byte) else { return EINVAL };
    // SAFETY: the same contract; the word fits.
    unsafe { handle.cell::<u64>(byte) }.add(amount);
    0
}

/// The word of the current slot: a hint, since the thread may migrate. 0 for an invalid offset.
///
/// # Safety
/// As sheaves_percpu_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_percpu_load(object: SheavesPercpu, byte: usize) -> u64 {
    let Some(handle) = word(object, byte) else { return 0 };
    // SAFETY: the same contract; the word fits.
    unsafe { handle.cell::<u64>(byte) }.load()
}

/// Replaces the word of the current slot by desired if it holds expected; true if it did. False for
/// an invalid offset. As cheap as sheaves_percpu_add; async-signal-safe.
///
/// # Safety
/// As sheaves_percpu_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_percpu_compare_store(
    object: SheavesPercpu,
    byte: usize,
    expected: u64,
    desired: u64,
) -> bool {
    let Some(handle) = word(object, byte) else { return false };
    // SAFETY: the same contract; the word fits.
    unsafe { handle.cell::<u64>(byte) }.cmp_store(expected, desired)
}

/// The sum of a word over all slots, wrapping. It may miss additions that run at the same time. 0
/// for an invalid offset.
///
/// # Safety
/// As sheaves_percpu_add.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_percpu_sum(object: SheavesPercpu, byte: usize) -> u64 {
    let Some(handle) = word(object, byte) else { return 0 };
    // SAFETY: the same contract; the word fits.
    unsafe { handle.cell::<u64>(byte) }.sum()
}

/// The address of an object in a slot, whether or not a thread has used the slot. It is valid while
/// the object is allocated. Slots have the numbers from 0; sheaves_slot_count() stands for the
/// memory that all threads without a slot share. NULL, and errno is kept, for a greater number,
/// when memory is out, and for what was never an object, but for one such value in 65536. May sleep
/// on a lock.
///
/// Other threads may run transactions on it: access it by atomics, unless the program prevents
/// that.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_percpu_address(object: SheavesPercpu, slot: usize) -> *mut c_void {
    let address = Handle::from_bits(object).and_then(|handle| handle.address(slot));
    address.map_or(null_mut(), |place| place.as_ptr().cast())
}

/// The number of slots: constant, at least 1.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_slot_count() -> usize {
    let _started = Access::get();
    slot_count()
}

/// The slot of the calling thread, a hint; -1 if it has none.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_current_slot() -> c_int {
    current_slot().max(-1)
}
