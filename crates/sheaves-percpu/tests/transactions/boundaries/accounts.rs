//! Checks after a transaction: every object is where it was, or where the transaction moved it.

use sheaves_percpu::internal::Cursor;

use super::child::{
    ADDED, ADDED_TOO, Board, EXPECTED, NEW, NEW_TOO, Operation, PUSHED, PUSHED_TOO,
};
use crate::numbers::{is_sentinel, vacant};
use crate::sheaves::{Sheaf, base};

/// The words of all slots, and the objects below them, before a transaction.
pub(crate) struct Before {
    values: Vec<usize>,
    objects: Vec<usize>,
}

impl Before {
    /// Call it only while a child has prepared its words and waits.
    pub(crate) fn of(board: &Board) -> Before {
        let values = board.before.get();
        let objects = if board.is_of_sheaves() { objects(&values) } else { Vec::new() };
        Before { values, objects }
    }

    /// Compares with the words at this moment. `Ok` tells whether the transaction happened.
    pub(crate) fn compare(
        &self,
        board: &Board,
        operation: Operation,
        signalled: bool,
    ) -> Result<bool, String> {
        let (result, other) = (board.result(), board.other());
        let (mut expected, mut found) = (self.objects.clone(), Vec::new());
        let after = board.after.get();
        let happened = match operation {
            Operation::Pop | Operation::PopSlow | Operation::PopBySize | Operation::Control(_) => {
                found = objects(&after);
                found.extend(popped(result).into_iter().chain(popped(other)));
                !is_sentinel(result)
            }
            Operation::Push | Operation::PushSlow | Operation::PushByAddress => {
                found = objects(&after);
                expected.extend([PUSHED].iter().filter(|_| result == 1));
                expected.extend([PUSHED_TOO].iter().filter(|_| other == 1));
                result == 1
            }
            Operation::Drain => {
                found = objects(&after);
                found.extend(objects(&board.drained.get()));
                found.extend(popped(other));
                result == 1
            }
            _ if operation.is_exchange() => {
                expected.clone_from(&self.values);
                replace(&mut expected, result, NEW)?;
                replace(&mut expected, other, NEW_TOO)?;
                found.clone_from(&after);
                result == 1
            }
            Operation::CmpStore | Operation::InRow(_) => {
                let sum = |values: &[usize]| values.iter().copied().fold(0, usize::wrapping_add);
                let added = ADDED * result + if other == 1 { ADDED_TOO } else { 0 };
                expected.push(sum(&self.values).wrapping_add(added));
                found.push(sum(&after));
                result == 1
            }
        };
        if signalled && !board.handler_ran() {
            return Err("the signal did not arrive".into());
        }
        expected.sort_unstable();
        found.sort_unstable();
        if expected == found {
            return Ok(happened);
        }
        let missing = expected.iter().filter(|object| !found.contains(object)).count();
        let doubled = found.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let (expected, found) = (expected.len(), found.len());
        Err(format!("{expected} before, {found} after: {missing} missing, {doubled} doubled"))
    }
}

/// True when the transaction happened on the slot where the child is now.
pub(crate) fn is_in_place(board: &Board, operation: Operation) -> bool {
    let here = board.here();
    match operation {
        Operation::Pop | Operation::PopSlow | Operation::PopBySize => {
            board.sheaf_of(board.result()) == base(here)
        }
        Operation::Push | Operation::PushSlow | Operation::PushByAddress => {
            is_cursor(here) && Sheaf::objects(here).contains(&PUSHED)
        }
        _ if operation.is_exchange() => here == NEW,
        Operation::CmpStore | Operation::InRow(_) => {
            [EXPECTED + ADDED, EXPECTED + ADDED + ADDED_TOO].contains(&here)
        }
        Operation::Drain | Operation::Control(_) => true,
    }
}

fn is_cursor(value: usize) -> bool {
    value != vacant() && value != Cursor::BOOTSTRAP.bits()
}

/// Replaces one of the expected values by `new`, if the exchange reports that it happened.
fn replace(values: &mut [usize], happened: usize, new: usize) -> Result<(), String> {
    if happened != 1 {
        return Ok(());
    }
    match values.iter_mut().find(|value| **value == EXPECTED) {
        Some(value) => *value = new,
        None => return Err("an exchange happened where nothing was to be exchanged".into()),
    }
    Ok(())
}

fn popped(result: usize) -> Option<usize> {
    (!is_sentinel(result)).then_some(result)
}

fn objects(cursors: &[usize]) -> Vec<usize> {
    cursors.iter().flat_map(|cursor| Sheaf::objects(*cursor)).collect()
}
