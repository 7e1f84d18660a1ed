//! What fits in a word.

use core::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroIsize, NonZeroU8, NonZeroU16, NonZeroU32,
    NonZeroU64, NonZeroUsize,
};

/// A type whose values are words of 64 bits, as keys and values of [`RcuWordMap`] are.
///
/// Numbers, `bool`, `char`, `()` and the non-zero numbers are. Types of a program become words in
/// two lines:
///
/// ```
/// use sheaves::map::{RcuWordMap, Word};
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// struct Inode(u64);
///
/// impl Word for Inode {
///     fn to_word(self) -> u64 { self.0 }
///     fn from_word(word: u64) -> Inode { Inode(word) }
/// }
///
/// let parents: RcuWordMap<Inode, Inode> = RcuWordMap::new();
/// parents.insert(Inode(7), Inode(2));
/// assert_eq!(parents.get(&Inode(7)), Some(Inode(2)));
/// ```
///
/// Keys are the same if their words are. So `0.0` and `-0.0` are two keys, and a `NaN` is one.
///
/// [`RcuWordMap`]: super::RcuWordMap
pub trait Word: Copy {
    /// The word of a value.
    fn to_word(self) -> u64;

    /// The value of a word. A map calls it with words from [`Word::to_word`] alone.
    fn from_word(word: u64) -> Self;
}

macro_rules! words {
    ($($type:ty: |$value:ident| $to:expr, |$word:ident| $from:expr;)*) => {
        $(impl Word for $type {
            #[inline(always)]
            fn to_word(self) -> u64 {
                let $value = self;
                $to
            }

            #[inline(always)]
            fn from_word($word: u64) -> $type {
                $from
            }
        })*
    };
}

macro_rules! numbers {
    ($($number:ty, $non_zero:ty;)*) => {
        words! {
            $(
                $number: |value| value as u64, |word| word as $number;
                $non_zero: |value| value.get() as u64,
                    |word| <$non_zero>::new(word as $number).unwrap_or(<$non_zero>::MAX);
            )*
        }
    };
}

numbers! {
    u8, NonZeroU8;
    u16, NonZeroU16;
    u32, NonZeroU32;
    u64, NonZeroU64;
    usize, NonZeroUsize;
    i8, NonZeroI8;
    i16, NonZeroI16;
    i32, NonZeroI32;
    i64, NonZeroI64;
    isize, NonZeroIsize;
}

words! {
    (): |_value| 0, |_word| ();
    bool: |value| u64::from(value), |word| word != 0;
    char: |value| u64::from(value),
        |word| char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    f32: |value| u64::from(value.to_bits()), |word| f32::from_bits(word as u32);
    f64: |value| value.to_bits(), |word| f64::from_bits(word);
}
