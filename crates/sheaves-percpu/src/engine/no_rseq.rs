//! Without an rseq engine every inlined transaction fails. A port to another architecture replaces
//! this file, see `docs/porting.md`.

use core::sync::atomic::AtomicUsize;

use super::mode::Access;
use super::rows::{Outcome, PackedWord};
use crate::word::{RowWord, Word};

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

macro_rules! no_block {
    ($($name:ident [$($generic:tt)*] ($($argument:ty),*);)+) => {
        $(
            /// Always [`Outcome::NoBlock`]: this architecture has no inlined form.
            pub fn $name<$($generic)*>($(_: $argument),*) -> Outcome {
                Outcome::NoBlock
            }
        )+
    };
}

no_block! {
    add [] (Access, RowWord, usize);
    add_const [const AMOUNT: i32] (Access, RowWord);
    add_bounded [const BITS: u32] (PackedWord, usize);
    add_bounded_const [const BITS: u32, const AMOUNT: i32] (PackedWord);
    add_guarded [const AMOUNT: i32] (Access, &AtomicUsize, RowWord);
    cmp_store [] (Access, RowWord, usize, usize);
}
