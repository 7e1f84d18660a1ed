//! Deferred reclamation: what is freed or called once the readers of now are gone.
//!
//! Layers above that hold deferred memory of their own are [`Sink`]s: they seal it in batches, give
//! each batch a [`Cookie`](crate::Cookie), and take batches back whose cookies have passed. This
//! module knows when to do so: by bytes and by age.

mod pressure;
mod sink;

pub use pressure::{Pressure, arm, note_reclaimed, note_sealed, pressure};
pub use sink::{Pending, SINKS_MAX, Sink, register};
