//! Contenders that several tables share. What one table alone needs is in the folder of the table.

pub(crate) mod allocators;
pub(crate) mod deferral;
pub(crate) mod deferred_bytes;
#[cfg(feature = "peers")]
pub(crate) mod liburcu;
pub(crate) mod maps;
