//! The inlined forms of pop and push, and their forms as whole functions, each with its own rseq
//! critical section.
//!
//! In the portable engine the inlined ones always fail. The whole ones go to a slow path then, and
//! after an abort.

use sheaves_percpu::Access;
use sheaves_percpu::internal::Word;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub(crate) use whole::{pop_by_size, push_by_address};

#[inline(never)]
pub(crate) fn pop(word: Word) -> usize {
    sheaves_percpu::internal::pop(Access::get(), word).unwrap_or(1)
}

#[inline(never)]
pub(crate) fn pop_source(word: Word) -> usize {
    sheaves_percpu::internal::pop_source(Access::get(), word).unwrap_or(1)
}

/// # Safety
/// As [`sheaves_percpu::push`].
#[inline(never)]
pub(crate) unsafe fn push(word: Word, object: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { sheaves_percpu::internal::push(Access::get(), word, object) }
}

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod whole {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use sheaves_percpu::internal::{InPage, TABLE, Word, pop_slow, push_slow};

    /// Sizes from 0 to 16 give the word below.
    static WORDS: InPage<[u16; 2]> = InPage::new([WORD.offset() as u16; 2]);
    const WORD: Word = Word::new(50);

    /// The lowest address that may be mapped: below every number that is used as an object.
    const WINDOW_START: usize = 1 << 16;
    /// The last object in the slow path of a push; 0 for none.
    static REFUSED: AtomicUsize = AtomicUsize::new(0);

    /// Also where an abort goes.
    extern "C" fn slow_pop(_: usize) -> *mut u8 {
        core::ptr::without_provenance_mut(pop_slow(WORD).unwrap_or(1))
    }

    unsafe extern "C" fn slow_push(object: *mut u8) {
        // SAFETY: the caller gives the object up.
        if !unsafe { push_slow(WORD, object.addr()) } {
            // Relaxed, all of this file: one thread.
            REFUSED.store(object.addr(), Ordering::Relaxed);
        }
    }

    #[unsafe(naked)]
    extern "C" fn whole_pop(_: usize) -> *mut u8 {
        sheaves_percpu::pop_by_size!(table = WORDS, slow = slow_pop)
    }

    #[unsafe(naked)]
    unsafe extern "C" fn whole_push(_: *mut u8) {
        sheaves_percpu::push_by_address!(slow = slow_push)
    }

    pub(crate) fn pop_by_size() -> usize {
        TABLE.fast_bytes_end.store(17, Ordering::Relaxed);
        whole_pop(10).addr()
    }

    /// # Safety
    /// As [`sheaves_percpu::push`]; the object is a number of at least 65,536.
    pub(crate) unsafe fn push_by_address(object: usize) -> bool {
        if TABLE.heap_bytes_end.load(Ordering::Relaxed) == 0 {
            let mapped = sheaves_sys::map::exactly(WINDOW_START, 1 << 12);
            assert_eq!(mapped, sheaves_sys::map::Exactly::Mapped);
            let map = core::ptr::with_exposed_provenance_mut::<u16>(WINDOW_START);
            for granule in 0..16 {
                // SAFETY: inside the page that was just mapped.
                let entry = unsafe { map.add(granule) };
                // SAFETY: as above.
                unsafe { entry.write(WORD.offset() as u16) };
            }
            TABLE.window.store(WINDOW_START, Ordering::Relaxed);
            TABLE.heap_bytes_end.store(16 << 16, Ordering::Relaxed);
        }
        REFUSED.store(0, Ordering::Relaxed);
        // SAFETY: the caller gives the object up.
        unsafe { whole_push(core::ptr::without_provenance_mut(object)) };
        REFUSED.load(Ordering::Relaxed) != object
    }
}
