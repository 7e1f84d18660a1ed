//! The reader's word as the value of a `pthread_key`.

use super::area::no_reader;
use crate::thread::key;

/// The reader's word of the calling thread, the value of [`key::at_exit`]; [`no_reader`] while it
/// has none.
pub fn reader() -> *const u64 {
    let word = key::at_exit();
    if word.is_null() { no_reader() } else { word.cast::<u64>().cast_const() }
}

/// Replaces the word that [`reader`] returns if it is `expected`; true if it was. A signal handler
/// between the two steps that does the same is not noticed: its word is lost until the thread ends.
#[must_use]
pub fn exchange_reader(expected: *const u64, new: *const u64) -> bool {
    let value = if core::ptr::eq(new, no_reader()) { 0 } else { new.expose_provenance() };
    core::ptr::eq(reader(), expected) && key::set_at_exit(value)
}
