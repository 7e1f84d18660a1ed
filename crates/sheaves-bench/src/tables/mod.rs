//! The tables: one folder each, and the list of them.
//!
//! A folder has all of its table: the cases and their rows, the contenders, what is timed, and the
//! bars. Allocators and other contenders that several tables share are in [`crate::contenders`].

mod batch;
mod bulk;
mod counter;
mod cxx;
mod dispose;
mod footprint;
mod hardened;
mod large;
mod map;
mod mixed;
mod pair;
mod percpu;
mod readers;
mod remote;
mod replace;
pub(crate) mod slabtest;
mod synchronize;
mod worst;

use crate::harness::Table;

/// Every table, in the order of the help.
pub(crate) static ALL: &[&Table] = &[
    &pair::TABLE,
    &batch::TABLE,
    &slabtest::TABLE,
    &remote::TABLE,
    &replace::TABLE,
    &large::TABLE,
    &worst::TABLE,
    &mixed::TABLE,
    &footprint::TABLE,
    &percpu::TABLE,
    &counter::TABLE,
    &readers::TABLE,
    &synchronize::TABLE,
    &map::TABLE,
    &dispose::TABLE,
    &bulk::TABLE,
    &hardened::TABLE,
    &cxx::TABLE,
];

pub(crate) fn names() -> String {
    ALL.iter().map(|table| table.name).collect::<Vec<_>>().join(", ")
}
