//! Without an rseq engine every inlined transaction on a word of a row finds no block. A port to
//! another architecture replaces this file, see `docs/porting.md`.

use core::sync::atomic::AtomicUsize;

use super::mode::Access;
use super::rows::{Outcome, PackedWord};
use crate::word::RowWord;

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
