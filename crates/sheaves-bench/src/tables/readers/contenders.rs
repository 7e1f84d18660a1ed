//! What a contender of `readers` is: anything under whose protection a pointer can be read while
//! other threads replace what it points to.

use core::ptr::{NonNull, null_mut};

/// Protects what readers read. The loops of liburcu have to be in C to be inlined, those of a
/// [`Section`] are here.
pub(super) trait Read: Send + Sync + 'static {
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

/// A contender in Rust, whose sections stand alone.
pub(super) trait Section: Send + Sync + 'static {
    fn section(&self);

    /// Shows what the pointer leads to, in a section.
    fn load(&self, follow: impl FnOnce(&Node) -> u64) -> u64;

    /// As [`Read::replace`].
    fn replace(&self, chain: Chain);
}

impl<S: Section> Read for S {
    #[inline(never)]
    fn sections(&self, count: usize) {
        (0..count).for_each(|_| self.section());
    }

    #[inline(never)]
    fn loads<const K: usize>(&self, count: usize) -> u64 {
        (0..count).map(|_| self.load(Node::follow::<K>)).sum()
    }

    fn replace(&self, chain: Chain) {
        Section::replace(self, chain);
    }
}

/// What the pointer leads to: a chain, of which the last node has the value.
///
/// The layout is known to the loops in C.
#[repr(C)]
pub(super) struct Node {
    value: u64,
    next: *mut Node,
}

pub(super) type Chain = Box<Node>;

// SAFETY: a chain owns its nodes, which are numbers and links.
unsafe impl Send for Node {}
// SAFETY: no thread changes a node while it can be read.
unsafe impl Sync for Node {}

impl Node {
    pub(super) const VALUE: u64 = 3;

    pub(super) fn chain(depth: usize) -> Chain {
        let last = Box::new(Node { value: Node::VALUE, next: null_mut() });
        (1..depth).fold(last, |next, _| Box::new(Node { value: 0, next: Box::into_raw(next) }))
    }

    #[inline(always)]
    pub(super) fn follow<const K: usize>(&self) -> u64 {
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
