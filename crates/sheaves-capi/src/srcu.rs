//! SRCU: domains whose read sections may sleep and end in another thread.

use core::ffi::c_int;

use sheaves_heap::entry::jump_with_frame;
use sheaves_rcu::{Srcu, SrcuGuard};
use sheaves_sys::errno::{EDEADLK, EINVAL, ENOMEM};
use sheaves_sys::report;
use sheaves_sys::stack::Frame;

use crate::deferred::{SheavesCall, SheavesHead, noted};
use crate::{boxed, refuse, unboxed};

/// A domain: read sections, and grace periods that wait for these only.
#[derive(Debug)]
pub struct SheavesSrcu(Srcu);

/// An open section of a domain.
pub type SheavesSrcuSection = u64;

/// Creates a domain; 32 bytes in each slot. NULL and ENOMEM when memory is out.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn sheaves_srcu_create() -> *mut SheavesSrcu {
    let made = Srcu::new().ok().and_then(|domain| boxed(SheavesSrcu(domain)).ok());
    made.unwrap_or_else(|| refuse(ENOMEM))
}

/// Destroys a domain. NULL is ignored.
///
/// If callbacks of it are pending, it waits for them first, as sheaves_srcu_barrier does, and for
/// those that they schedule. Where that would deadlock, inside a read section or a callback, the
/// domain stays as it is, for ever: its callbacks still run. This is reported in one line, as the
/// kernel does where srcu_barrier is missing before cleanup_srcu_struct.
///
/// # Safety
/// No section of it is open, and it is not used any more, but by its callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_srcu_destroy(domain: *mut SheavesSrcu) {
    // SAFETY: the same contract: it ends below, when no callback is left.
    let Some(SheavesSrcu(srcu)) = (unsafe { domain.as_ref::<'static>() }) else { return };
    while !srcu.is_idle() {
        if srcu.barrier().is_err() {
            report::report(format_args!("srcu: domain {domain:p} is destroyed with callbacks"));
            return;
        }
    }
    // SAFETY: made by `sheaves_srcu_create`, and not used any more.
    drop(unsafe { unboxed(domain) });
}

/// Begins a section, which sheaves_srcu_read_unlock ends, in any thread. It may sleep and be long.
/// One transaction, no atomic instruction. Async-signal-safe. Never blocks, but in the child of a
/// fork while another thread uses the domain for the first time there; sections that were open
/// count as ended in the child. 0 for NULL.
///
/// # Safety
/// The domain is NULL or was created.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn sheaves_srcu_read_lock(domain: *mut SheavesSrcu) -> SheavesSrcuSection {
    // SAFETY: the same contract.
    unsafe { domain.as_ref() }.map_or(0, |SheavesSrcu(domain)| domain.read().into_raw())
}

/// Ends a section. One that is ended a second time aborts the process with one line, in a later
/// sheaves_srcu_synchronize at the latest, unless another section was open meanwhile.
///
/// # Safety
/// The section is of this domain and was not ended before; or the domain is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_srcu_read_unlock(
    domain: *mut SheavesSrcu,
    section: SheavesSrcuSection,
) {
    // SAFETY: the same contract.
    if let Some(SheavesSrcu(domain)) = unsafe { domain.as_ref() } {
        // SAFETY: the same contract.
        drop(unsafe { SrcuGuard::from_raw(domain, section) });
    }
}

/// Waits until all sections of the domain that began before this call have ended. Sleeps; inside a
/// section of this domain it deadlocks. 0; EINVAL for NULL.
///
/// # Safety
/// The domain is NULL or was created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_srcu_synchronize(domain: *mut SheavesSrcu) -> c_int {
    // SAFETY: the same contract.
    let Some(SheavesSrcu(domain)) = (unsafe { domain.as_ref() }) else { return EINVAL };
    domain.synchronize();
    0
}

/// Schedules call(head) for when all sections of the domain that are open have ended, like the
/// kernel's call_srcu.
///
/// A short lock, which all domains share; no allocation. May be called inside a section, by any
/// thread; not for signal handlers. Callbacks of a domain run in their order, in the thread of
/// those of sheaves_call_rcu, and may do what those may; if no other event starts the work, it
/// starts 20 ms later, also for what callbacks schedule. Sections of other domains delay none of
/// them; those of sheaves_rcu_read_lock may. sheaves_srcu_barrier waits for them,
/// sheaves_rcu_barrier does not. After fork() the child inherits them, as those of
/// sheaves_call_rcu.
///
/// 0; EINVAL for NULL and for a head that is not at a multiple of 8. A head that is deferred
/// already is reported in one line and not deferred again.
///
/// # Safety
/// The domain is NULL or was created, and is not destroyed before; head as for sheaves_call_rcu.
#[cfg_attr(any(target_arch = "aarch64", target_arch = "x86_64"), unsafe(naked))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_srcu_call(
    domain: *mut SheavesSrcu,
    head: *mut SheavesHead,
    call: SheavesCall,
) -> c_int {
    jump_with_frame!(call_from, domain, head, call)
}

/// # Safety
/// As [`sheaves_srcu_call`].
unsafe extern "C" fn call_from(
    domain: *mut SheavesSrcu,
    head: *mut SheavesHead,
    call: SheavesCall,
    frame: Frame,
) -> c_int {
    // SAFETY: the same contract: `sheaves_srcu_destroy` waits for callbacks.
    let Some(SheavesSrcu(domain)) = (unsafe { domain.as_ref::<'static>() }) else { return EINVAL };
    let Some((head, call)) = noted(head, call, frame) else { return EINVAL };
    // SAFETY: the same contract.
    unsafe { domain.call(head, call) };
    0
}

/// Returns when every callback that any thread scheduled for the domain before has run. Sleeps;
/// inside a section of this domain it deadlocks, as sheaves_srcu_synchronize.
///
/// 0; EINVAL for NULL; EDEADLK, with a line on standard error, inside a section of
/// sheaves_rcu_read_lock or any deferred callback.
///
/// # Safety
/// The domain is NULL or was created, and is not destroyed before this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_srcu_barrier(domain: *mut SheavesSrcu) -> c_int {
    // SAFETY: the same contract.
    let domain = unsafe { domain.as_ref::<'static>() };
    let Some(SheavesSrcu(domain)) = domain else { return EINVAL };
    domain.barrier().map_or(EDEADLK, |()| 0)
}
