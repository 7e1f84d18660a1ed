//! Every way through a thread: each read gives every value that its location can have.
//!
//! What a location can have is computed first: the initial value, and what any thread writes that
//! has read only such values, until nothing is new. A value that is there only because of itself is
//! not found; the model would refuse it, since dependencies are part of happens-before.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::{Expression, Fence, Litmus, Order, Source, Statement};
use crate::relation::Set;

/// How many values a location may have.
const VALUES_MAX: usize = 16;

/// One way through a thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path {
    pub(crate) steps: Vec<Step>,
    /// The registers at the end.
    pub(crate) registers: BTreeMap<String, i64>,
}

/// A step of a path. The sets are of steps of the same path.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) action: Action,
    /// The reads from which the written value was computed.
    pub(crate) data: Set,
    /// The reads that decide whether the step is taken: it is in an arm of their `if`.
    pub(crate) control: Set,
    /// The read of the same exchange, if this is its write.
    pub(crate) exchanged: Option<usize>,
}

/// What a step does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Read(Access),
    Write(Access),
    Fence(Fence),
}

/// An access to memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) order: Order,
    pub(crate) location: usize,
    pub(crate) value: i64,
}

/// The values that each location can have.
type Values = Vec<BTreeSet<i64>>;

/// All ways through each thread.
pub(crate) fn paths(litmus: &Litmus) -> Result<Vec<Vec<Path>>, String> {
    let mut values: Values = litmus.initial.iter().map(|value| BTreeSet::from([*value])).collect();
    loop {
        let mut all = Vec::new();
        for (number, thread) in litmus.threads.iter().enumerate() {
            let ends = run(thread, vec![State::default()], &values);
            let ends = ends.map_err(|reason| format!("P{number}: {reason}"))?;
            all.push(ends.into_iter().map(State::into_path).collect::<Vec<_>>());
        }
        let mut is_new = false;
        for step in all.iter().flatten().flat_map(|path| &path.steps) {
            if let Action::Write(access) = step.action {
                is_new |= values[access.location].insert(access.value);
            }
        }
        if !is_new {
            return Ok(all);
        }
        if let Some(full) = values.iter().position(|values| values.len() > VALUES_MAX) {
            return Err(format!("`{}` has too many values", litmus.locations[full]));
        }
    }
}

/// Where a thread is on one of its ways.
#[derive(Debug, Clone, Default)]
struct State {
    steps: Vec<Step>,
    registers: BTreeMap<String, Computed>,
    /// The reads on which the enclosing `if`s depend.
    control: Set,
}

/// A value and the reads from which it was computed.
#[derive(Debug, Clone, Copy)]
struct Computed {
    value: i64,
    reads: Set,
}

/// Runs statements from each of `states`; returns all states in which they can end.
fn run(code: &[Statement], states: Vec<State>, values: &Values) -> Result<Vec<State>, String> {
    let mut states = states;
    for statement in code {
        let mut next = Vec::new();
        for state in states {
            next.extend(state.step(statement, values)?);
        }
        states = next;
    }
    Ok(states)
}

impl State {
    /// Runs one statement.
    fn step(mut self, statement: &Statement, values: &Values) -> Result<Vec<State>, String> {
        match statement {
            Statement::Fence(fence) => self.add(Action::Fence(*fence), 0),
            Statement::Store { order, location, value } => {
                let value = self.compute(value)?;
                self.write(*order, *location, value);
            }
            Statement::Assign { register, source } => {
                return self.assign(register.as_ref(), source, values);
            }
            Statement::If { condition, arms } => {
                let outer = self.control;
                let condition = self.compute(condition)?;
                self.control |= condition.reads;
                let arm = &arms[usize::from(condition.value == 0)];
                let mut ends = run(arm, vec![self], values)?;
                ends.iter_mut().for_each(|end| end.control = outer);
                return Ok(ends);
            }
        }
        Ok(vec![self])
    }

    /// Assigns to a register what `source` can give: one state for each value.
    fn assign(
        mut self,
        register: Option<&String>,
        source: &Source,
        values: &Values,
    ) -> Result<Vec<State>, String> {
        let (order, location, exchange) = match source {
            Source::Computed(expression) => {
                let computed = self.compute(expression)?;
                self.registers.extend(register.map(|register| (register.clone(), computed)));
                return Ok(vec![self]);
            }
            Source::Load { order, location } => (*order, *location, None),
            Source::Exchange { order, location, value } => {
                (*order, *location, Some(self.compute(value)?))
            }
        };
        let ends = values[location].iter().map(|value| {
            let mut state = self.clone();
            let read = match exchange {
                Some(new) => state.exchange(order, location, *value, new),
                None => state.read(order, location, *value),
            };
            let computed = Computed { value: *value, reads: 1 << read };
            state.registers.extend(register.map(|register| (register.clone(), computed)));
            state
        });
        Ok(ends.collect())
    }

    /// Adds a read and returns its number.
    fn read(&mut self, order: Order, location: usize, value: i64) -> usize {
        let order = if order == Order::Acquire { order } else { Order::Once };
        self.add(Action::Read(Access { order, location, value }), 0);
        self.steps.len() - 1
    }

    fn write(&mut self, order: Order, location: usize, new: Computed) {
        let order = if order == Order::Release { order } else { Order::Once };
        self.add(Action::Write(Access { order, location, value: new.value }), new.reads);
    }

    /// Adds the steps of an exchange that finds `old`, and returns the number of its read. A full
    /// one has a fence on each side.
    fn exchange(&mut self, order: Order, location: usize, old: i64, new: Computed) -> usize {
        let fences = usize::from(order == Order::Full);
        (0..fences).for_each(|_| self.add(Action::Fence(Fence::Full), 0));
        let read = self.read(order, location, old);
        self.write(order, location, new);
        self.steps[read + 1].exchanged = Some(read);
        (0..fences).for_each(|_| self.add(Action::Fence(Fence::Full), 0));
        read
    }

    fn add(&mut self, action: Action, data: Set) {
        self.steps.push(Step { action, data, control: self.control, exchanged: None });
    }

    fn compute(&self, expression: &Expression) -> Result<Computed, String> {
        Ok(match expression {
            Expression::Number(value) => Computed { value: *value, reads: 0 },
            Expression::Register(register) => match self.registers.get(register) {
                Some(computed) => *computed,
                None => return Err(format!("`{register}` is used before it is assigned")),
            },
            Expression::Unary(operator, inner) => {
                let inner = self.compute(inner)?;
                Computed { value: operator(inner.value), reads: inner.reads }
            }
            Expression::Binary(operator, sides) => {
                let [left, right] = [self.compute(&sides[0])?, self.compute(&sides[1])?];
                let value = operator(left.value, right.value);
                Computed { value, reads: left.reads | right.reads }
            }
        })
    }

    fn into_path(self) -> Path {
        let registers = self.registers.into_iter().map(|(name, computed)| (name, computed.value));
        Path { steps: self.steps, registers: registers.collect() }
    }
}
