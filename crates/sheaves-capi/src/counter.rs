//! Per-CPU counters: cheap to add to, slower to read.

use sheaves_percpu::Counter;

/// A counter, initialised by SHEAVES_COUNTER_INIT or by zero bytes. It may be static or a member;
/// it must not be copied or moved once it is in use.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SheavesCounter {
    reserved: [u64; 2],
}

const _: () = {
    assert!(size_of::<Counter>() == size_of::<SheavesCounter>());
    assert!(align_of::<Counter>() == align_of::<SheavesCounter>());
    // SAFETY: two initialised words.
    let words = unsafe { core::mem::transmute::<Counter, [u64; 2]>(Counter::new()) };
    assert!(words[0] == 0 && words[1] == 0, "zero bytes are a new counter");
};

/// # Safety
/// The counter is null or valid: zero bytes, or used by functions of this file only.
unsafe fn of<'a>(counter: *const SheavesCounter) -> Option<&'a Counter> {
    // SAFETY: the same layout, by the assertions above.
    unsafe { counter.cast::<Counter>().as_ref() }
}

/// Adds amount, without an atomic instruction and without sharing a cache line. The first addition
/// takes 8 bytes in every slot; without memory for that the counter is one atomic number.
///
/// The first addition may sleep on a lock for microseconds. Later ones never wait and are
/// async-signal-safe. After fork() parent and child count separately. Arithmetic wraps. NULL is
/// ignored.
///
/// # Safety
/// The counter is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_counter_add(counter: *mut SheavesCounter, amount: i64) {
    // SAFETY: the same contract.
    if let Some(counter) = unsafe { of(counter) } {
        counter.add(amount);
    }
}

/// The exact sum over all slots, with every addition made before. Takes a lock; 0 for NULL.
///
/// # Safety
/// The counter is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_counter_sum(counter: *const SheavesCounter) -> i64 {
    // SAFETY: the same contract.
    unsafe { of(counter) }.map_or(0, Counter::sum)
}

/// The sum without the parts that are still in slots: one load, off by at most 65536 for each
/// slot in use, and 65536 for a part that is being added to it.
///
/// # Safety
/// The counter is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_counter_approximate(counter: *const SheavesCounter) -> i64 {
    // SAFETY: the same contract.
    unsafe { of(counter) }.map_or(0, Counter::approximate)
}

/// Frees the counter's memory; it is 0 and may be used again. May sleep on a lock. NULL is ignored.
///
/// # Safety
/// The counter is NULL or valid, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_counter_destroy(counter: *mut SheavesCounter) {
    if !counter.is_null() {
        // SAFETY: valid by the contract, and not used by other threads.
        drop(unsafe { counter.cast::<Counter>().replace(Counter::new()) });
    }
}
