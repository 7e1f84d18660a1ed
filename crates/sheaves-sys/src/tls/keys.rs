//! The reader's word as the value of a `pthread_key`.

use super::area::no_reader;
use crate::key;

/// The reader's word of the calling thread, the value of [`key::at_exit`]; [`no_reader`] while it
/// has none.
#[must_use]
pub fn reader() -> *const u64 {
    let word = key::at_exit();
    if word.is_null() { no_reader() } else { word.cast::<u64>().cast_const() }
}

/// Does nothing: [`key::set_at_exit`] has replaced the word that [`reader`] returns.
#[must_use]
pub fn exchange_reader(_expected: *const u64, _new: *const u64) -> bool {
    true
}
