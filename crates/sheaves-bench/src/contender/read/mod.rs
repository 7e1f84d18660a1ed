//! Contenders of the table `readers`: everything under whose protection a pointer can be read
//! while others replace what it points to.
//!
//! A contender brings its own loops, because those of liburcu have to be in C to be inlined, as
//! ours are inlined here.

mod others;
mod ours;

use core::ptr::{NonNull, null_mut};

use super::Kind;
use crate::failure::Failure;
#[cfg(feature = "peers")]
pub(crate) use ours::Root;

/// Loads in a chain at most.
pub(crate) const DEPTH_MAX: usize = 5;

/// Protects what readers read.
pub(crate) trait Read: Send + Sync + 'static {
    /// Runs on a thread before it reads.
    fn enter_thread(&self) {}

    /// Runs on a thread that will not read for a while.
    fn leave_thread(&self) {}

    /// Enters a section and leaves it, again and again.
    fn sections(&self, count: usize);

    /// Reads the pointer, and the value behind `K` dependent loads, again and again; the sum.
    fn loads<const K: usize>(&self, count: usize) -> u64;

    /// Replaces what the pointer leads to. What was there is freed once no thread can read it, now
    /// or later, as the contender's users would have it.
    fn replace(&self, chain: Chain);
}

/// What the pointer leads to: a chain, of which the last node has the value.
///
/// The layout is known to the loops in C.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    value: u64,
    next: *mut Node,
}

/// A chain of nodes, as its first one.
pub(crate) type Chain = Box<Node>;

// SAFETY: a chain owns its nodes, which are numbers and links.
unsafe impl Send for Node {}
// SAFETY: no thread changes a node while it can be read.
unsafe impl Sync for Node {}

impl Node {
    /// The value of every chain that is not freed.
    pub(crate) const VALUE: u64 = 3;

    /// A chain for `depth` loads.
    pub(crate) fn chain(depth: usize) -> Chain {
        let last = Box::new(Node { value: Node::VALUE, next: null_mut() });
        (1..depth).fold(last, |next, _| Box::new(Node { value: 0, next: Box::into_raw(next) }))
    }

    /// The value behind `K` loads.
    #[inline(always)]
    fn follow<const K: usize>(&self) -> u64 {
        let mut node = NonNull::from(self);
        for _ in 1..K {
            // SAFETY: the chain is not freed while it is read.
            let next = unsafe { (*node.as_ptr()).next };
            // SAFETY: the chain has at least `K` nodes.
            node = unsafe { NonNull::new_unchecked(next) };
        }
        // SAFETY: as above.
        unsafe { (*node.as_ptr()).value }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A reader that comes too late shall notice. Volatile: nothing else reads it.
        // SAFETY: the node is ours.
        unsafe { (&raw mut self.value).write_volatile(u64::MAX / 2) };
        if let Some(next) = NonNull::new(self.next) {
            // SAFETY: made by `chain`, and owned by this node.
            drop(unsafe { Box::from_raw(next.as_ptr()) });
        }
    }
}

/// Receives the contender that [`visit`] made, with its type.
pub(crate) trait Visitor {
    /// What the visit leaves behind.
    type Out;
    /// Called once.
    fn visit<C: Read>(self, contender: C) -> Self::Out;
}

/// Makes the contender, with a chain for `depth` loads, and hands it to `visitor`.
pub(crate) fn visit<V: Visitor>(kind: Kind, depth: usize, visitor: V) -> Result<V::Out, Failure> {
    let chain = Node::chain(depth);
    Ok(match kind {
        Kind::Rcu => visitor.visit(ours::Rcu::new(chain)),
        Kind::Srcu => visitor.visit(ours::Srcu::new(chain)?),
        Kind::Increments => visitor.visit(ours::Increments::new(chain)?),
        Kind::CrossbeamEpoch => visitor.visit(others::Crossbeam::new(chain)),
        Kind::Seize => visitor.visit(others::Seize::new(chain)),
        Kind::Haphazard => visitor.visit(others::Haphazard::new(chain)),
        Kind::ArcSwap => visitor.visit(others::Swap::new(chain)),
        Kind::RwLock => visitor.visit(others::Std::new(chain)),
        Kind::ParkingLot => visitor.visit(others::ParkingLot::new(chain)),
        #[cfg(feature = "peers")]
        _ if kind.role() == super::Role::Urcu => {
            visitor.visit(super::liburcu::Reader::new(kind, chain)?)
        }
        _ => return Err(Failure::run(format!("{} protects no readers", kind.name()))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: usize = 20_000;
    const REPLACEMENTS: usize = 200;

    struct Check;

    impl Visitor for Check {
        type Out = ();

        fn visit<C: Read>(self, contender: C) {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    contender.enter_thread();
                    contender.sections(LOADS);
                    assert_eq!(contender.loads::<DEPTH_MAX>(LOADS), LOADS as u64 * Node::VALUE);
                    contender.leave_thread();
                });
                scope.spawn(|| {
                    for _ in 0..REPLACEMENTS {
                        contender.replace(Node::chain(DEPTH_MAX));
                    }
                });
            });
        }
    }

    #[test]
    fn readers_never_see_what_was_freed() {
        let readers = |kind: &&Kind| kind.role().reads() && **kind != Kind::Increments;
        for kind in Kind::ALL.iter().filter(readers) {
            visit(*kind, DEPTH_MAX, Check).unwrap();
        }
        assert!(visit(Kind::Glibc, 1, Check).is_err());
    }

    #[test]
    fn a_chain_is_as_long_as_the_loads_need() {
        assert_eq!(Node::chain(1).follow::<1>(), Node::VALUE);
        assert_eq!(Node::chain(4).follow::<4>(), Node::VALUE);
        assert_eq!(Node::chain(4).follow::<3>(), 0);
    }
}
