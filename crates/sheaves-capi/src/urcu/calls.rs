//! `call_rcu` and related functions.
//!
//! The one thread of this library runs the callbacks of all threads. The data by which a program
//! chooses a thread for them (`create_call_rcu_data`) is stored and returned, without other effect.

use core::ffi::{c_int, c_ulong, c_void};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use sheaves_heap::entry::jump_with_frame;
use sheaves_heap::guard;
use sheaves_rcu::defer::{self, BarrierError, Call, Head};
use sheaves_rcu::internal;
use sheaves_sys::errno::{self, EEXIST, EINVAL, ENOMEM};
use sheaves_sys::stack::Frame;
use sheaves_sys::{report, thread, tls, topology};

use super::qsbr;
use crate::{boxed, unboxed};

/// A callback.
pub type CallFunction = Option<Call>;

/// `struct call_rcu_data`, opaque to programs.
#[derive(Debug)]
pub struct CallRcuData {
    _flags: c_ulong,
    _cpu: c_int,
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

/// The data of threads and CPUs without their own.
static DEFAULT: CallRcuData = CallRcuData { _flags: 0, _cpu: -1 };
/// The data of each CPU.
static OF_CPUS: [AtomicPtr<CallRcuData>; topology::CPUS_MAX] =
    [const { AtomicPtr::new(null_mut()) }; topology::CPUS_MAX];
/// The functions that liburcu's hash tables register to be called around a fork: one constant for
/// all tables of a process.
static ATFORK: AtomicPtr<Atfork> = AtomicPtr::new(null_mut());
/// How many tables have registered it and not unregistered it.
static ATFORK_USERS: AtomicUsize = AtomicUsize::new(0);

/// `call_rcu`. The head need not be initialised, so a head that is queued twice is not detected.
///
/// # Safety
/// The head is valid, and only readers use its object until the call.
#[cfg_attr(any(target_arch = "aarch64", target_arch = "x86_64"), unsafe(naked))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_call_rcu(head: *mut Head, call: CallFunction) {
    jump_with_frame!(call_rcu_from, head, call)
}

/// # Safety
/// As [`sheaves_urcu_call_rcu`].
unsafe extern "C" fn call_rcu_from(head: *mut Head, call: CallFunction, frame: Frame) {
    guard::note_deferral(head.addr(), frame);
    let (Some(call), false) = (call, head.is_null()) else {
        report::die(format_args!("urcu: call_rcu was called with a null head or a null function"));
    };
    // SAFETY: the caller's 16 bytes, valid by the contract.
    unsafe { head.write(Head::new()) };
    // SAFETY: the same contract; the head is idle.
    unsafe { defer::call_rcu(head, call) };
}

exports! {
    /// `rcu_barrier`. Inside a read section or a callback it reports the error and returns.
    sheaves_urcu_barrier() = qsbr::offline(|| {
        // A slot that could not be reached may be once other threads have run. Returning before all
        // calls were made would let the caller unload the code of one.
        while let Err(BarrierError::Unreachable) = defer::barrier() {
            thread::sleep_ns(1_000_000);
        }
    });
    /// `create_call_rcu_data`: null and `errno` when memory is out.
    sheaves_urcu_create_call_rcu_data(flags: c_ulong, cpu: c_int) -> *mut CallRcuData =
        boxed(CallRcuData { _flags: flags, _cpu: cpu }).unwrap_or(null_mut());
    /// `get_default_call_rcu_data`.
    sheaves_urcu_get_default_call_rcu_data() -> *mut CallRcuData =
        (&raw const DEFAULT).cast_mut();
    /// `get_thread_call_rcu_data`: null if none is set.
    sheaves_urcu_get_thread_call_rcu_data() -> *mut CallRcuData = tls::calls().cast();
    /// `set_thread_call_rcu_data`.
    sheaves_urcu_set_thread_call_rcu_data(data: *mut CallRcuData) = tls::set_calls(data.cast());
    /// `get_call_rcu_data`: that of the thread, else that of the CPU, else the default.
    sheaves_urcu_get_call_rcu_data() -> *mut CallRcuData = {
        let of_cpu = || sheaves_urcu_get_cpu_call_rcu_data(topology::current_cpu());
        let of_thread = sheaves_urcu_get_thread_call_rcu_data();
        let found = NonNull::new(of_thread).or_else(|| NonNull::new(of_cpu()));
        found.map_or_else(|| sheaves_urcu_get_default_call_rcu_data(), NonNull::as_ptr)
    };
    /// `get_call_rcu_thread`: the thread that runs callbacks, else the calling thread.
    sheaves_urcu_get_call_rcu_thread(_data: *mut CallRcuData) -> usize =
        thread::handle_of(internal::reclaimer_thread().unwrap_or_else(tls::thread_pointer));
    /// `call_rcu_before_fork`. The library has its own handlers; this calls those of hash tables.
    sheaves_urcu_call_rcu_before_fork() = around_fork(|atfork| atfork.before_fork);
    /// `call_rcu_after_fork_parent`.
    sheaves_urcu_call_rcu_after_fork_parent() = around_fork(|atfork| atfork.after_fork_parent);
    /// `call_rcu_after_fork_child`.
    sheaves_urcu_call_rcu_after_fork_child() = around_fork(|atfork| atfork.after_fork_child);
}

/// `call_rcu_data_free`: ignores null and the default.
///
/// # Safety
/// Made by [`sheaves_urcu_create_call_rcu_data`], not set for a thread or CPU, and not used any
/// more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_call_rcu_data_free(data: *mut CallRcuData) {
    if !data.is_null() && !core::ptr::eq(data, &raw const DEFAULT) {
        // SAFETY: the same contract.
        let _end = unsafe { unboxed(data) };
    }
}

fn place_of(cpu: c_int) -> Option<&'static AtomicPtr<CallRcuData>> {
    OF_CPUS.get(usize::try_from(cpu).ok()?)
}

/// `get_cpu_call_rcu_data`: null if none is set.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_get_cpu_call_rcu_data(cpu: c_int) -> *mut CallRcuData {
    // Acquire pairs with the AcqRel in `sheaves_urcu_set_cpu_call_rcu_data`.
    place_of(cpu).map_or(null_mut(), |place| place.load(Ordering::Acquire))
}

/// `set_cpu_call_rcu_data`: 0; `-EINVAL` or `-EEXIST`, and `errno` is set.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_set_cpu_call_rcu_data(cpu: c_int, data: *mut CallRcuData) -> c_int {
    let refuse = |reason: c_int| {
        errno::set(reason);
        -reason
    };
    let possible = place_of(cpu).filter(|_| cpu < topology::possible_cpus() as c_int);
    let Some(place) = possible else { return refuse(EINVAL) };
    if data.is_null() {
        // AcqRel pairs with itself and with the Acquire in the getter: publishes what the pointer
        // leads to.
        place.swap(null_mut(), Ordering::AcqRel);
        return 0;
    }
    // AcqRel, as above. Relaxed on failure: the value is not used.
    match place.compare_exchange(null_mut(), data, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => 0,
        Err(_) => refuse(EEXIST),
    }
}

/// `create_all_cpu_call_rcu_data`: 0; `-ENOMEM`, and `errno` is set.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_urcu_create_all_cpu_call_rcu_data(flags: c_ulong) -> c_int {
    for cpu in 0..topology::possible_cpus() as c_int {
        if !sheaves_urcu_get_cpu_call_rcu_data(cpu).is_null() {
            continue;
        }
        let made = sheaves_urcu_create_call_rcu_data(flags, cpu);
        if made.is_null() {
            errno::set(ENOMEM);
            return -ENOMEM;
        }
        if sheaves_urcu_set_cpu_call_rcu_data(cpu, made) != 0 {
            // SAFETY: made above and not set: another thread was faster.
            unsafe { sheaves_urcu_call_rcu_data_free(made) };
        }
    }
    0
}

/// `free_all_cpu_call_rcu_data`.
///
/// # Safety
/// The data of CPUs is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_free_all_cpu_call_rcu_data() {
    for place in &OF_CPUS[..topology::possible_cpus()] {
        // AcqRel pairs with the one in `sheaves_urcu_set_cpu_call_rcu_data`.
        let data = place.swap(null_mut(), Ordering::AcqRel);
        // SAFETY: taken out, and the same contract.
        unsafe { sheaves_urcu_call_rcu_data_free(data) };
    }
}

/// `urcu_register_rculfhash_atfork`.
///
/// # Safety
/// `atfork` is valid until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_register_rculfhash_atfork(atfork: *mut Atfork) {
    // Relaxed: the count publishes it.
    ATFORK.store(atfork, Ordering::Relaxed);
    // Release pairs with the Acquire in `around_fork`.
    ATFORK_USERS.fetch_add(1, Ordering::Release);
}

/// `urcu_unregister_rculfhash_atfork`.
///
/// # Safety
/// It was registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_urcu_unregister_rculfhash_atfork(_: *mut Atfork) {
    // Relaxed, both: the functions stay valid, and are not called once the count is 0.
    let decrement = |users: usize| users.checked_sub(1);
    let _none_registered =
        ATFORK_USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement);
}

fn around_fork(handler: fn(&Atfork) -> Option<unsafe extern "C" fn(*mut c_void)>) {
    // Acquire pairs with the Release in `sheaves_urcu_register_rculfhash_atfork`.
    if ATFORK_USERS.load(Ordering::Acquire) == 0 {
        return;
    }
    // Relaxed: the count published it.
    let atfork = ATFORK.load(Ordering::Relaxed);
    // SAFETY: null, or valid by the contract of the registration.
    if let Some(atfork) = unsafe { atfork.as_ref() }
        && let Some(function) = handler(atfork)
    {
        // SAFETY: registered to be called here with this argument, by the same contract.
        unsafe { function(atfork.private) };
    }
}
