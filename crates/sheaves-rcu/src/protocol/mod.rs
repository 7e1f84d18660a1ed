//! The protocols that are modelled: the state of readers, the owner of a record, and the
//! generations of waiters.
//!
//! `tests/protocols/` compiles these files with loom's atomics and runs them in every order of
//! their steps. So a file here names nothing of this crate but what is beside it.

pub(crate) mod generation;
mod machine;
pub(crate) mod owner;
pub(crate) mod reader;

use generation::Generations;
use machine::{AtomicU32, AtomicU64, AtomicUsize};

impl Generations {
    /// Here, since loom's atomics have no `const` constructor.
    pub(crate) const fn new() -> Generations {
        Generations {
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            futexes: [const { AtomicU32::new(0) }; 2],
            lead: AtomicUsize::new(0),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/protocol.rs"]
mod tests;
