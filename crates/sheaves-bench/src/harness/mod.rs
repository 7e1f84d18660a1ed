//! What all tables share: how contenders are measured, compared and reported.
//!
//! Nothing here knows a table. [`table`] says what the harness asks of one, [`run`] is the course
//! of a run.

pub(crate) mod child;
pub(crate) mod failure;
pub(crate) mod judge;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod workers;
