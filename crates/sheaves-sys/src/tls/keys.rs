//! The reader's word as the value of a `pthread_key`.

use super::arch::no_reader;
use crate::key;

/// The reader's word of the calling thread; [`no_reader`] while it has none: the value of
/// [`key::at_exit`].
#[must_use]
pub fn reader() -> *const u64 {
    let word = key::at_exit();
    if word.is_null() { no_reader() } else { word.cast::<u64>().cast_const() }
}

/// Replaces the word that [`reader`] returns: [`key::set_at_exit`] has done so.
#[must_use]
pub fn exchange_reader(_expected: *const u64, _new: *const u64) -> bool {
    true
}

/// True when threads can have a word of their own: where libc has a key whose value needs no
/// allocation.
#[must_use]
pub fn can_have_reader() -> bool {
    key::has_key()
}
