//! Values that are read under a guard and replaced as a whole; `retired` is what was replaced.

pub(crate) mod retired;
pub(crate) mod value;
