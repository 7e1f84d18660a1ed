//! The thread's area under Miri, which has no assembly: a variable of the language. So it links
//! `std`, which it does nowhere else.

extern crate std;

use core::cell::UnsafeCell;
use core::mem::zeroed;

use super::super::layout::ThreadArea;

/// What assembly defines elsewhere.
pub(super) static NO_READER: [u64; 8] = [u64::MAX; 8];

std::thread_local! {
    static AREA: UnsafeCell<ThreadArea> = const {
        // SAFETY: numbers and pointers, for which zeros are valid.
        let zeros: ThreadArea = unsafe { zeroed() };
        let reader = (&raw const NO_READER).cast();
        UnsafeCell::new(ThreadArea { virtual_slot: -1, no_slot: -1, reader, ..zeros })
    };
}

/// The reader's word of the calling thread; [`no_reader`] while it has none.
///
/// [`no_reader`]: crate::tls::no_reader
#[cfg(not(sheaves_keys))]
pub fn reader() -> *const u64 {
    // SAFETY: the area belongs to this thread and lives as long as it.
    unsafe { (*thread_area()).reader }
}

/// The calling thread's area.
pub fn thread_area() -> *mut ThreadArea {
    AREA.with(UnsafeCell::get)
}

/// Stands for the thread pointer: different for each thread that is alive.
pub fn thread_pointer() -> usize {
    thread_area().addr()
}

/// Of libc's variables there are none.
macro_rules! weak_address {
    ($name:literal) => {
        core::ptr::null()
    };
}
pub(crate) use weak_address;
