//! The reader's word as the value of a `pthread_key`.

use super::area::no_reader;
use crate::thread::READERS;

/// True when threads can have a reader's word of their own: libc has given a key.
pub fn can_have_reader() -> bool {
    READERS.usable().is_some()
}

/// The reader's word of the calling thread; [`no_reader`] while it has none.
pub fn reader() -> *const u64 {
    // SAFETY: the key is never deleted once it is in a `Key`.
    let word = READERS.usable().map(|key| unsafe { libc::pthread_getspecific(key) });
    word.filter(|word| !word.is_null())
        .map_or_else(no_reader, |word| word.cast::<u64>().cast_const())
}

/// Replaces the word that [`reader`] returns if it is `expected`; true if it was. A signal handler
/// between the two steps that does the same is not noticed: its word is lost until the thread ends.
#[must_use]
pub fn exchange_reader(expected: *const u64, new: *const u64) -> bool {
    let value = if core::ptr::eq(new, no_reader()) { 0 } else { new.expose_provenance() };
    core::ptr::eq(reader(), expected) && READERS.set(value)
}
