//! `call_rcu` and all around it.
//!
//! Calls of all threads are run by the one thread of this library. What a program makes to direct
//! them (`create_call_rcu_data`) is kept, handed back and otherwise without effect.

use core::ffi::{c_int, c_ulong, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use sheaves_rcu::defer::{self, Call, Head};
use sheaves_sys::errno::{self, EEXIST, EINVAL, ENOMEM};
use sheaves_sys::{report, tls, topology};

use super::qsbr;
use crate::{boxed, unboxed};

/// What is called.
pub type CallFunction = Option<Call>;

/// `struct call_rcu_data`, of which programs see the address.
#[derive(Debug)]
pub struct CallRcuData {
    _flags: c_ulong,
    _processor: c_int,
}

/// `struct urcu_atfork`.
#[repr(C)]
#[derive(Debug)]
pub struct Atfork {
    before_fork: Option<unsafe extern "C" fn(*mut c_void)>,
    after_fork_parent: Option<unsafe extern "C" fn(*mut c_void)>,
    after_fork_child: Option<unsafe extern "C" fn(*mut c_void)>,
    private: *mut c_void,
}

/// The one for everybody who has no other.
static DEFAULT: CallRcuData = CallRcuData { _flags: 0, _processor: -1 };
/// Those of processors.
static PROCESSORS: [AtomicPtr<CallRcuData>; topology::CPUS_MAX] =
    [const { AtomicPtr::new(null_mut()) }; topology::CPUS_MAX];
/// What hash tables want to be done around a fork.
static ATFORK: AtomicPtr<Atfork> = AtomicPtr::new(null_mut());

/// `call_rcu`. The head need not be initialised, so one that is queued twice is not recognised.
///
/// # Safety
/// The head is valid, and only readers use its object until the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_call_rcu(head: *mut Head, call: CallFunction) {
    let (Some(call), false) = (call, head.is_null()) else {
        report::die(format_args!("urcu: call_rcu without a head or without a function"));
    };
    // SAFETY: the caller's, as are the 16 bytes.
    unsafe { head.write(Head::new()) };
    // SAFETY: the same contract; the head is idle.
    unsafe { defer::call_rcu(head, call) };
}

/// `rcu_barrier`. Inside of a read section or of a call it says so in a line and returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_barrier() {
    let _reported = qsbr::offline(defer::barrier);
}

/// `create_call_rcu_data`: null and `errno` where there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_create_call_rcu_data(
    flags: c_ulong,
    processor: c_int,
) -> *mut CallRcuData {
    boxed(CallRcuData { _flags: flags, _processor: processor })
}

/// `call_rcu_data_free`: the default and null are left alone.
///
/// # Safety
/// Made by [`sheaves_urcu_create_call_rcu_data`], set for nothing, and used for the last time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_call_rcu_data_free(data: *mut CallRcuData) {
    if !data.is_null() && !core::ptr::eq(data, &raw const DEFAULT) {
        // SAFETY: the same contract.
        let _end = unsafe { unboxed(data) };
    }
}

/// `get_default_call_rcu_data`.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_get_default_call_rcu_data() -> *mut CallRcuData {
    (&raw const DEFAULT).cast_mut()
}

/// The place of a processor that this machine may have.
fn place_of(processor: c_int) -> Option<&'static AtomicPtr<CallRcuData>> {
    let processor = usize::try_from(processor).ok()?;
    PROCESSORS[..topology::possible_cpus()].get(processor)
}

/// `get_cpu_call_rcu_data`: null where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_get_cpu_call_rcu_data(processor: c_int) -> *mut CallRcuData {
    let place = usize::try_from(processor).ok().and_then(|processor| PROCESSORS.get(processor));
    // Acquire pairs with the AcqRel in `sheaves_urcu_set_cpu_call_rcu_data`.
    place.map_or(null_mut(), |place| place.load(Ordering::Acquire))
}

/// `set_cpu_call_rcu_data`: 0, or the negative of `EINVAL`, `EEXIST`, which `errno` has, too.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_set_cpu_call_rcu_data(
    processor: c_int,
    data: *mut CallRcuData,
) -> c_int {
    let refuse = |reason: c_int| {
        errno::set(reason);
        -reason
    };
    let Some(place) = place_of(processor) else { return refuse(EINVAL) };
    if data.is_null() {
        // AcqRel pairs with itself and with the Acquire in the getter: what it points to.
        place.swap(null_mut(), Ordering::AcqRel);
        return 0;
    }
    // AcqRel, as above. Relaxed on failure: nothing is done with the value.
    match place.compare_exchange(null_mut(), data, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => 0,
        Err(_) => refuse(EEXIST),
    }
}

/// `get_thread_call_rcu_data`: null where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_get_thread_call_rcu_data() -> *mut CallRcuData {
    #[cfg(target_arch = "x86_64")]
    {
        let area = tls::thread_area();
        // SAFETY: the area belongs to this thread and lives as long as it.
        unsafe { (*area).calls.cast() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    null_mut()
}

/// `set_thread_call_rcu_data`.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_set_thread_call_rcu_data(data: *mut CallRcuData) {
    #[cfg(target_arch = "x86_64")]
    {
        let area = tls::thread_area();
        // SAFETY: the area belongs to this thread and lives as long as it.
        unsafe { (*area).calls = data.cast() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = data;
}

/// `get_call_rcu_data`: that of the thread, else that of the processor, else the default.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_get_call_rcu_data() -> *mut CallRcuData {
    let of_thread = sheaves_urcu_get_thread_call_rcu_data();
    if !of_thread.is_null() {
        return of_thread;
    }
    let of_processor = sheaves_urcu_get_cpu_call_rcu_data(topology::current_cpu());
    if of_processor.is_null() { sheaves_urcu_get_default_call_rcu_data() } else { of_processor }
}

/// `get_call_rcu_thread`: the thread that runs calls; the caller's own while there is none.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_get_call_rcu_thread(_: *mut CallRcuData) -> usize {
    defer::reclaimer_thread().unwrap_or_else(tls::thread_pointer)
}

/// `create_all_cpu_call_rcu_data`: 0, or the negative of `ENOMEM`.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_create_all_cpu_call_rcu_data(flags: c_ulong) -> c_int {
    for processor in 0..topology::possible_cpus() as c_int {
        if !sheaves_urcu_get_cpu_call_rcu_data(processor).is_null() {
            continue;
        }
        let made = sheaves_urcu_create_call_rcu_data(flags, processor);
        if made.is_null() {
            errno::set(ENOMEM);
            return -ENOMEM;
        }
        if sheaves_urcu_set_cpu_call_rcu_data(processor, made) != 0 {
            // SAFETY: made above, and set for nothing: somebody was faster.
            unsafe { sheaves_urcu_call_rcu_data_free(made) };
        }
    }
    0
}

/// `free_all_cpu_call_rcu_data`.
///
/// # Safety
/// Nobody uses those of processors any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_free_all_cpu_call_rcu_data() {
    for place in &PROCESSORS[..topology::possible_cpus()] {
        // AcqRel pairs with the one in `sheaves_urcu_set_cpu_call_rcu_data`.
        let data = place.swap(null_mut(), Ordering::AcqRel);
        // SAFETY: taken out, and the same contract.
        unsafe { sheaves_urcu_call_rcu_data_free(data) };
    }
}

/// `urcu_register_rculfhash_atfork`.
///
/// # Safety
/// Valid until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_register_rculfhash_atfork(atfork: *mut Atfork) {
    // Release pairs with the Acquire in `around_fork`.
    ATFORK.store(atfork, Ordering::Release);
}

/// `urcu_unregister_rculfhash_atfork`.
///
/// # Safety
/// Was registered, by the last table that needed it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_unregister_rculfhash_atfork(_: *mut Atfork) {
    // What is registered is one constant for all tables of a process, which may have more of them.
}

fn around_fork(which: fn(&Atfork) -> Option<unsafe extern "C" fn(*mut c_void)>) {
    // Acquire pairs with the Release in `sheaves_urcu_register_rculfhash_atfork`.
    let atfork = ATFORK.load(Ordering::Acquire);
    // SAFETY: null, or valid by the contract of who registered.
    if let Some(atfork) = unsafe { atfork.as_ref() }
        && let Some(function) = which(atfork)
    {
        // SAFETY: to be called here with that, by the same contract.
        unsafe { function(atfork.private) };
    }
}

/// `call_rcu_before_fork`. The library has its own handlers; this is for hash tables.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_call_rcu_before_fork() {
    around_fork(|atfork| atfork.before_fork);
}

/// `call_rcu_after_fork_parent`.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_call_rcu_after_fork_parent() {
    around_fork(|atfork| atfork.after_fork_parent);
}

/// `call_rcu_after_fork_child`.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_call_rcu_after_fork_child() {
    around_fork(|atfork| atfork.after_fork_child);
}
