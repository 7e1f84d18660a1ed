//! Functions that run when a thread ends, after the thread-local destructors of the language: those
//! of `pthread_key`s. The key for rseq is in `rseq.rs`.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

/// Keys below this one keep their value in `struct pthread`: setting it never allocates
/// (`PTHREAD_KEY_2NDLEVEL_SIZE` of glibc; in musl all keys do).
const FIRST_LEVEL_KEYS: u32 = 32;
/// Values of a [`Key`] that is not one of libc's.
const NO_KEY: u32 = u32::MAX;
const KEY_REFUSED: u32 = u32::MAX - 1;

/// Ends the records of readers.
pub static READERS: Key = Key::new();

/// A `pthread_key` for one function at the end of threads.
#[derive(Debug)]
pub struct Key(AtomicU32);

impl Key {
    pub(crate) const fn new() -> Key {
        Key(AtomicU32::new(NO_KEY))
    }

    /// Makes libc call `function` at the end of every thread whose value is not null, with that
    /// value.
    ///
    /// libc clears the value first, and repeats the calls up to four times while functions set new
    /// values. Call this early: a key after the first 32 is not used, because setting its value
    /// would allocate. The function of the first call stays.
    pub fn prepare(&self, function: unsafe extern "C" fn(*mut c_void)) {
        // Relaxed, all of this type: the number publishes nothing.
        if self.0.load(Ordering::Relaxed) != NO_KEY {
            return;
        }
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: valid for the call to fill; functions of this library are never unloaded.
        let status = unsafe { libc::pthread_key_create(&raw mut key, Some(function)) };
        let usable = status == 0 && key < FIRST_LEVEL_KEYS;
        let made = if usable { key } else { KEY_REFUSED };
        let won = self.0.compare_exchange(NO_KEY, made, Ordering::Relaxed, Ordering::Relaxed);
        if status == 0 && (won.is_err() || !usable) {
            // SAFETY: made above, and no other thread knows it.
            let _ = unsafe { libc::pthread_key_delete(key) };
        }
    }

    /// The key, if there is one.
    pub(crate) fn usable(&self) -> Option<libc::pthread_key_t> {
        // Relaxed: the number publishes nothing.
        Some(self.0.load(Ordering::Relaxed)).filter(|key| *key < FIRST_LEVEL_KEYS)
    }

    /// Sets the value with which libc calls the function of [`Key::prepare`] for this thread; 0 for
    /// no call. False where there is no key. Async-signal-safe in practice: it stores to the
    /// thread's own memory.
    pub fn set(&self, value: usize) -> bool {
        let Some(key) = self.usable() else { return false };
        let value = core::ptr::with_exposed_provenance(value);
        // SAFETY: the key was made by `prepare` and is never deleted once it is in a `Key`.
        unsafe { libc::pthread_setspecific(key, value) == 0 }
    }
}
