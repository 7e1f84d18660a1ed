//! Types for which zero bytes are a valid value.

use core::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};

/// A type for which zero bytes are a valid value.
///
/// # Safety
/// Zero bytes are a valid value of the type.
pub unsafe trait Zeroed {}

macro_rules! zeroed {
    ($($type:ty),+ $(,)?) => {
        // SAFETY: zero is a valid value of every type in this list.
        $(unsafe impl Zeroed for $type {})+
    };
}

zeroed!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, char, ());
zeroed!(AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize);
zeroed!(AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize);

// SAFETY: null is a valid value.
unsafe impl<T> Zeroed for AtomicPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Zeroed for *const T {}
// SAFETY: as above.
unsafe impl<T> Zeroed for *mut T {}
// SAFETY: every element is.
unsafe impl<T: Zeroed, const COUNT: usize> Zeroed for [T; COUNT] {}
// SAFETY: any bytes are.
unsafe impl<T> Zeroed for core::mem::MaybeUninit<T> {}
// SAFETY: the wrapped value is.
unsafe impl<T: Zeroed> Zeroed for core::cell::UnsafeCell<T> {}
