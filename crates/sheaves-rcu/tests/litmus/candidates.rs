//! Every execution of a text that one could think of, and the verdict over those that are allowed.
//!
//! A candidate is one path of each thread, for each read a write of the value that it reads, and
//! for each location an order of its writes. All of them are tried.

use crate::execution::Execution;
use crate::model::Model;
use crate::paths::{Path, paths};
use crate::program::{Condition, Litmus, Verdict};
use crate::relation::{EVENTS_MAX, Relation, Set};

/// In which executions of a text that `model` allows its condition holds.
pub(crate) fn judge(litmus: &Litmus, model: Model) -> Result<Verdict, String> {
    let paths = paths(litmus)?;
    let mut answers = Answers::default();
    for choice in choices(&paths.iter().map(Vec::len).collect::<Vec<_>>()) {
        let chosen: Vec<&Path> = choice.iter().zip(&paths).map(|(at, of)| &of[*at]).collect();
        run(litmus, &chosen, model, &mut answers)?;
    }
    match (answers.yes, answers.no) {
        (0, 0) => Err("the model allows no execution at all".into()),
        (0, _) => Ok(Verdict::Never),
        (_, 0) => Ok(Verdict::Always),
        _ => Ok(Verdict::Sometimes),
    }
}

/// Allowed executions in which the condition holds, and in which it does not.
#[derive(Debug, Default)]
struct Answers {
    yes: usize,
    no: usize,
}

/// Tries all candidates with these paths.
fn run(
    litmus: &Litmus,
    paths: &[&Path],
    model: Model,
    answers: &mut Answers,
) -> Result<(), String> {
    let execution = Execution::new(litmus, paths)?;
    let sources = sources(&execution);
    let orders: Vec<Vec<Vec<usize>>> = (0..litmus.locations.len())
        .map(|location| permutations(&later_writes(&execution, location)))
        .collect();
    let orders_of = |choice: &[usize]| -> Vec<&[usize]> {
        choice.iter().zip(&orders).map(|(at, of)| of[*at].as_slice()).collect()
    };
    let all_orders = choices(&orders.iter().map(Vec::len).collect::<Vec<_>>());
    for choice in choices(&sources.iter().map(|(_, writes)| writes.len()).collect::<Vec<_>>()) {
        let mut rf = Relation::empty(execution.events.len());
        for (at, (read, writes)) in choice.iter().zip(&sources) {
            rf.insert(writes[*at], *read);
        }
        for order in &all_orders {
            let orders = orders_of(order);
            if model.allows(&execution, &rf, &coherence(&execution, &orders)) {
                let holds = holds(&litmus.condition, paths, &finals(&execution, &orders))?;
                answers.yes += usize::from(holds);
                answers.no += usize::from(!holds);
            }
        }
    }
    Ok(())
}

/// Each read, with the writes of its value to its location.
fn sources(execution: &Execution) -> Vec<(usize, Vec<usize>)> {
    let writes = members(execution.writes());
    let reads = members(execution.reads()).into_iter().map(|read| {
        let fits = |write: &usize| access(execution, read) == access(execution, *write);
        (read, writes.iter().copied().filter(fits).collect())
    });
    reads.collect()
}

/// The location and the value of an event that is an access.
fn access(execution: &Execution, event: usize) -> (usize, i64) {
    let access = execution.events[event].access().expect("a read or a write");
    (access.location, access.value)
}

/// The writes to a location except the initial one.
fn later_writes(execution: &Execution, location: usize) -> Vec<usize> {
    let is_later = |event: &usize| {
        !execution.events[*event].is_initial() && access(execution, *event).0 == location
    };
    members(execution.writes()).into_iter().filter(is_later).collect()
}

/// The events of a set.
fn members(set: Set) -> Vec<usize> {
    (0..EVENTS_MAX).filter(|event| set >> event & 1 == 1).collect()
}

/// The relation that says that each location has its initial write first, and the later ones in the
/// order given.
fn coherence(execution: &Execution, orders: &[&[usize]]) -> Relation {
    let mut co = Relation::empty(execution.events.len());
    for (initial, order) in orders.iter().enumerate() {
        for (at, write) in order.iter().enumerate() {
            co.insert(initial, *write);
            order[at + 1..].iter().for_each(|later| co.insert(*write, *later));
        }
    }
    co
}

/// The value of each location at the end: that of its last write. Initial writes come first among
/// the events, in the order of the locations.
fn finals(execution: &Execution, orders: &[&[usize]]) -> Vec<i64> {
    let last = |(initial, order): (usize, &&[usize])| *order.last().unwrap_or(&initial);
    orders.iter().enumerate().map(last).map(|write| access(execution, write).1).collect()
}

/// Is the condition true of this final state?
fn holds(condition: &Condition, paths: &[&Path], finals: &[i64]) -> Result<bool, String> {
    Ok(match condition {
        Condition::Register { thread, register, value } => {
            match paths[*thread].registers.get(register) {
                Some(found) => found == value,
                None => return Err(format!("`{thread}:{register}` is not assigned on every path")),
            }
        }
        Condition::Location { location, value } => finals[*location] == *value,
        Condition::Not(inner) => !holds(inner, paths, finals)?,
        Condition::And(sides) => {
            holds(&sides[0], paths, finals)? & holds(&sides[1], paths, finals)?
        }
        Condition::Or(sides) => holds(&sides[0], paths, finals)? | holds(&sides[1], paths, finals)?,
    })
}

/// All ways to choose one of `counts[n]` things for each `n`.
fn choices(counts: &[usize]) -> Vec<Vec<usize>> {
    counts.iter().fold(vec![Vec::new()], |begun, count| {
        let extend = |choice: &Vec<usize>, at: usize| [&choice[..], &[at]].concat();
        begun.iter().flat_map(|choice| (0..*count).map(move |at| extend(choice, at))).collect()
    })
}

/// All orders of some events.
fn permutations(events: &[usize]) -> Vec<Vec<usize>> {
    if events.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in events.iter().enumerate() {
        let others = [&events[..at], &events[at + 1..]].concat();
        all.extend(permutations(&others).into_iter().map(|rest| [&[*first], &rest[..]].concat()));
    }
    all
}
