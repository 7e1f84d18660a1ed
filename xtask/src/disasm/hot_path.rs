//! Which instructions of a function run on its hot path, and how many there are.
//!
//! The hot path starts at the entry and follows unconditional jumps. At a conditional jump it falls
//! through, because the compiler puts the likely side there. It takes the jump only if the
//! fall-through side cannot reach a return without a call, which marks that side as the slow one.
//! It ends at the first return. A function without such a path is counted along its fall-through,
//! calls included.

use std::collections::BTreeSet;

use super::listing::Function;

/// How the hot path leaves the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It returns to its caller.
    Return,
    /// It continues in another function, or where it cannot be followed.
    Elsewhere,
}

/// The hot path of one function.
#[derive(Debug, Clone)]
pub struct HotPath {
    /// Indexes of its instructions, in execution order.
    pub indexes: Vec<usize>,
    /// How it ends.
    pub end: End,
}

/// The counts on the page for a hot path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Instructions, the return included.
    pub instructions: usize,
    /// Instructions that read or write memory through an operand.
    pub memory: usize,
    /// Conditional jumps.
    pub branches: usize,
    /// Calls; a fast path has none.
    pub calls: usize,
    /// Atomic read-modify-writes; only the portable engine has them.
    pub locked: usize,
}

impl HotPath {
    /// Finds the hot path of a function.
    #[must_use]
    pub fn of(function: &Function) -> Self {
        let mut search = Search { function, dead: BTreeSet::new(), path: Vec::new() };
        if search.reaches_return(0) {
            return Self { indexes: search.path, end: End::Return };
        }
        fall_through(function)
    }

    /// Counts the instructions along the path.
    #[must_use]
    pub fn counts(&self, function: &Function) -> Counts {
        let path = || self.indexes.iter().map(|index| &function.instructions[*index]);
        Counts {
            instructions: self.indexes.len(),
            memory: path().filter(|instruction| instruction.touches_memory()).count(),
            branches: path().filter(|instruction| instruction.is_conditional_jump()).count(),
            calls: path().filter(|instruction| instruction.is_call()).count()
                + usize::from(self.end == End::Elsewhere),
            locked: path().filter(|instruction| instruction.is_locked()).count(),
        }
    }
}

/// Depth-first search for a return without a call, fall-through first.
struct Search<'function> {
    function: &'function Function,
    /// Instructions on the path, or from which the search has returned.
    dead: BTreeSet<usize>,
    path: Vec<usize>,
}

impl Search<'_> {
    fn reaches_return(&mut self, index: usize) -> bool {
        let Some(instruction) = self.function.instructions.get(index) else { return false };
        if !self.dead.insert(index) || instruction.is_call() || instruction.is_trap() {
            return false;
        }
        self.path.push(index);
        let target = instruction.target.and_then(|address| self.function.index_of(address));
        let found = instruction.is_return()
            || !instruction.is_jump() && self.reaches_return(index + 1)
            || target.is_some_and(|target| self.reaches_return(target));
        if !found {
            self.path.pop();
        }
        found
    }
}

/// The path that falls through every conditional jump and steps over calls.
fn fall_through(function: &Function) -> HotPath {
    let mut indexes = Vec::new();
    let mut next = Some(0);
    while let Some(index) = next {
        let Some(instruction) = function.instructions.get(index) else { break };
        if indexes.contains(&index) {
            break;
        }
        indexes.push(index);
        if instruction.is_return() {
            return HotPath { indexes, end: End::Return };
        }
        next = if instruction.is_trap() {
            None
        } else if instruction.is_jump() {
            instruction.target.and_then(|address| function.index_of(address))
        } else {
            Some(index + 1)
        };
    }
    HotPath { indexes, end: End::Elsewhere }
}
