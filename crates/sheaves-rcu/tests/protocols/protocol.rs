//! The protocols, with the atomics of the model checker.

use machine::{AtomicU32, AtomicU64, AtomicUsize};

#[expect(dead_code, reason = "some functions are for the product alone")]
#[path = "../../src/protocol/generation.rs"]
pub(crate) mod generation;
#[expect(dead_code, reason = "as above")]
#[path = "../../src/protocol/owner.rs"]
pub(crate) mod owner;
#[expect(dead_code, reason = "as above")]
#[path = "../../src/protocol/reader.rs"]
pub(crate) mod reader;

/// In place of `src/protocol/machine.rs`.
pub(crate) mod machine {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    /// The models do not tell threads apart.
    pub(crate) fn thread_pointer() -> usize {
        1
    }
}

impl generation::Generations {
    pub(crate) fn new() -> generation::Generations {
        generation::Generations {
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            futexes: core::array::from_fn(|_| AtomicU32::new(0)),
            lead: AtomicUsize::new(0),
        }
    }
}

impl owner::Owner {
    pub(crate) fn new() -> owner::Owner {
        owner::Owner(AtomicU64::new(0))
    }
}

impl reader::Reader {
    pub(crate) fn new(state: u64) -> reader::Reader {
        let [nesting, fenced] = [0, 0].map(AtomicU64::new);
        reader::Reader { state: AtomicU64::new(state), nesting, fenced }
    }
}
