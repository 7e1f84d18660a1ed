//! What a litmus text says: threads of statements, values at the start, and a question about the
//! end.
//!
//! `parse` makes these values, `paths` and `candidates` run them. They hold only what the checker
//! understands: a text with anything else does not become a [`Litmus`].

use std::fmt;

/// A text that was read.
#[derive(Debug)]
pub(crate) struct Litmus {
    /// The answer that the comment of the text promises, in its line `Result:`.
    pub(crate) result: Option<Verdict>,
    /// The names of the shared variables. A location is an index into this.
    pub(crate) locations: Vec<String>,
    /// The value of each location at the start.
    pub(crate) initial: Vec<i64>,
    /// The statements of `P0`, `P1` and so on.
    pub(crate) threads: Vec<Vec<Statement>>,
    /// What the clause `exists` asks of the final state.
    pub(crate) condition: Condition,
}

/// In how many of the executions that the model allows the condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Never,
    Sometimes,
    Always,
}

impl Verdict {
    /// The verdict with this name, in letters of either case.
    pub(crate) fn of(name: &str) -> Option<Verdict> {
        let all = [Verdict::Never, Verdict::Sometimes, Verdict::Always];
        all.into_iter().find(|verdict| verdict.to_string() == name.to_lowercase())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Verdict::Never => "never",
            Verdict::Sometimes => "sometimes",
            Verdict::Always => "always",
        })
    }
}

/// A step of a thread.
#[derive(Debug)]
pub(crate) enum Statement {
    /// `smp_mb` and its kin.
    Fence(Fence),
    /// `WRITE_ONCE`, `smp_store_release`.
    Store { order: Order, location: usize, value: Expression },
    /// `register = source`; without a register the result is dropped.
    Assign { register: Option<String>, source: Source },
    /// `if`, with an empty second arm if there is no `else`.
    If { condition: Expression, arms: [Vec<Statement>; 2] },
}

/// What is assigned to a register.
#[derive(Debug)]
pub(crate) enum Source {
    /// A computation on registers.
    Computed(Expression),
    /// `READ_ONCE`, `smp_load_acquire`.
    Load { order: Order, location: usize },
    /// `xchg` and its weaker forms.
    Exchange { order: Order, location: usize, value: Expression },
}

/// How an access is ordered with others of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Once,
    Acquire,
    Release,
    /// A full fence before and after. Only exchanges have it.
    Full,
}

/// A fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// `smp_mb`
    Full,
    /// `smp_rmb`
    Reads,
    /// `smp_wmb`
    Writes,
}

/// A computation on registers.
#[derive(Debug)]
pub(crate) enum Expression {
    Number(i64),
    Register(String),
    Unary(fn(i64) -> i64, Box<Expression>),
    Binary(fn(i64, i64) -> i64, Box<[Expression; 2]>),
}

/// What is asked of the final state.
#[derive(Debug)]
pub(crate) enum Condition {
    /// `0:r1=2`
    Register {
        thread: usize,
        register: String,
        value: i64,
    },
    /// `x=2`
    Location {
        location: usize,
        value: i64,
    },
    Not(Box<Condition>),
    And(Box<[Condition; 2]>),
    Or(Box<[Condition; 2]>),
}
