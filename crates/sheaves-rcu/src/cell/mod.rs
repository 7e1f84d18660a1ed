//! Values that are read under a guard and replaced as a whole; `retired` is what was replaced.

pub(crate) mod retired;
#[cfg(feature = "serde")]
mod serial;
pub(crate) mod value;
