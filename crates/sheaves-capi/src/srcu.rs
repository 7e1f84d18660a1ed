//! SRCU: domains whose read sections may sleep and end in another thread.

use core::ffi::c_int;

use sheaves_rcu::{Srcu, SrcuGuard};
use sheaves_sys::errno::{EINVAL, ENOMEM};

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
/// # Safety
/// No section of it is open, and it is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_srcu_destroy(domain: *mut SheavesSrcu) {
    if !domain.is_null() {
        // SAFETY: made by `sheaves_srcu_create`, and not used any more.
        drop(unsafe { unboxed(domain) });
    }
}

/// Begins a section, which sheaves_srcu_read_unlock ends, in any thread. It may sleep and be long.
/// One transaction, no atomic instruction. Never blocks; async-signal-safe. After fork() the
/// sections that were open count as ended in the child. 0 for NULL.
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
