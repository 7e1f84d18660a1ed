//! Without an rseq engine every inlined transaction on a word of a block fails. A port to another
//! architecture replaces this file, see `docs/porting.md`.

use super::mode::Access;
use crate::word::Word;

/// Always `None`: this architecture has no inlined form.
#[must_use]
pub fn pop(_: Access, _: Word) -> Option<usize> {
    None
}

/// Always `None`, likewise.
#[must_use]
pub fn pop_source(_: Access, _: Word) -> Option<usize> {
    None
}

/// Always false: this architecture has no inlined form.
///
/// # Safety
/// None.
#[must_use]
pub unsafe fn push(_: Access, _: Word, _: usize) -> bool {
    false
}

pub(super) fn slot(_: Access) -> i32 {
    -1
}
