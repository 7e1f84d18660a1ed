//! The protocols that are modelled: the counting of a slab's objects, and the stack of sheaves.
//!
//! The models in `tests/protocols/` compile these files with the model checker's atomics and run
//! them in every order of their steps. So a file here uses nothing of this crate except the other
//! files in this folder.

pub(crate) mod counting;
pub(crate) mod stack;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

impl stack::Stack {
    /// Here, since the model checker's atomics have no `const` constructor.
    pub(crate) const fn new() -> stack::Stack {
        stack::Stack { head: AtomicU64::new(0) }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/protocol.rs"]
mod tests;
