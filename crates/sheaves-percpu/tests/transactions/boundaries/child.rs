//! The traced process: prepares words, stops for the tracer, performs one transaction, reports.
//!
//! It is a fork of the test, so both have the same addresses. They communicate by a board in shared
//! memory.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{Word, push_slow};
use sheaves_sys::topology::Affinity;

use super::control::{self, Fault};
use super::in_rows::{self, InRow};
use crate::fast;
use crate::numbers::{cmp_store, drain, load, observe, pop_slow, vacant};
use crate::sheaves::{OBJECTS_MAX, Sheaf};

const WORD: Word = Word::new(50);

/// The word before an exchange, and the new values of the transaction and of the handler.
pub(crate) const EXPECTED: usize = 100;
pub(crate) const NEW: usize = 200;
pub(crate) const NEW_TOO: usize = 300;
/// The word before an exchange that has to fail.
const UNEXPECTED: usize = 400;
/// What the transaction and the handler add.
pub(crate) const ADDED: usize = 1;
pub(crate) const ADDED_TOO: usize = 1000;
/// What the transaction and the handler push.
pub(crate) const PUSHED: usize = 100_000;
pub(crate) const PUSHED_TOO: usize = 200_000;
/// The objects of the first sheaf start at this number, those of the second at twice this number.
const FIRST: usize = 10_000;
/// `other` on the board when the handler did not run.
const NOT_RUN: usize = usize::MAX;

/// The traced operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Pop,
    PopSlow,
    PopBySize,
    Push,
    PushSlow,
    PushByAddress,
    CmpStore,
    InRow(InRow),
    /// From the outside, but by transactions, as without a fence.
    Drain,
    Control(Fault),
}

impl Operation {
    /// The operations of the library.
    pub(crate) const ALL: [Operation; 14] = [
        Operation::Pop,
        Operation::PopSlow,
        Operation::PopBySize,
        Operation::Push,
        Operation::PushSlow,
        Operation::PushByAddress,
        Operation::CmpStore,
        Operation::InRow(InRow::Add),
        Operation::InRow(InRow::AddConst),
        Operation::InRow(InRow::AddBounded),
        Operation::InRow(InRow::AddBoundedConst),
        Operation::InRow(InRow::AddGuarded),
        Operation::InRow(InRow::CmpStore),
        Operation::Drain,
    ];

    /// True when the interference can make the transaction fail.
    pub(crate) fn may_refuse(self, signalled: bool) -> bool {
        // A drain that is migrated reports that it is incomplete.
        self == Operation::Drain || signalled && self.is_exchange()
    }

    /// False when no input makes it fail.
    pub(crate) fn can_refuse(self) -> bool {
        let never =
            [Operation::InRow(InRow::Add), Operation::InRow(InRow::AddConst), Operation::Drain];
        !never.contains(&self)
    }

    fn is_of_sheaves(self) -> bool {
        !matches!(self, Operation::CmpStore | Operation::InRow(_))
    }

    pub(crate) fn is_exchange(self) -> bool {
        matches!(self, Operation::CmpStore | Operation::InRow(InRow::CmpStore))
    }

    pub(crate) fn is_push(self) -> bool {
        matches!(self, Operation::Push | Operation::PushSlow | Operation::PushByAddress)
    }

    pub(crate) fn is_pop(self) -> bool {
        matches!(self, Operation::Pop | Operation::PopSlow | Operation::PopBySize)
    }
}

/// The state that a transaction finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Input {
    /// The transaction can happen.
    Open,
    /// The transaction must fail; for one that never fails, the same as `Open`.
    Shut,
}

/// A list of numbers in shared memory.
#[repr(C)]
pub(crate) struct Values {
    count: AtomicUsize,
    values: [AtomicUsize; 16],
}

impl Values {
    // Relaxed, all: the two processes take turns, ordered by stops and waits.
    pub(crate) fn get(&self) -> Vec<usize> {
        let count = self.count.load(Ordering::Relaxed);
        self.values[..count].iter().map(|value| value.load(Ordering::Relaxed)).collect()
    }

    fn clear(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    fn push(&self, value: usize) {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.values[count].store(value, Ordering::Relaxed);
    }
}

/// Shared memory of tracer and child. Relaxed everywhere: they take turns.
#[repr(C)]
pub(crate) struct Board {
    sheaves: [Sheaf; 2],
    /// The word of the critical sections in `control`.
    control: AtomicUsize,
    guard: AtomicUsize,
    of_sheaves: AtomicUsize,
    shut: AtomicUsize,
    result: AtomicUsize,
    other: AtomicUsize,
    /// The word of the current slot after the transaction.
    here: AtomicUsize,
    in_handler: AtomicUsize,
    pub(crate) before: Values,
    pub(crate) after: Values,
    pub(crate) drained: Values,
}

impl Board {
    pub(crate) fn set_input(&self, input: Input) {
        self.shut.store(input as usize, Ordering::Relaxed);
    }

    pub(crate) fn result(&self) -> usize {
        self.result.load(Ordering::Relaxed)
    }

    /// The result of the handler's transaction; odd and not 1 when the handler did not run.
    pub(crate) fn other(&self) -> usize {
        self.other.load(Ordering::Relaxed)
    }

    pub(crate) fn here(&self) -> usize {
        self.here.load(Ordering::Relaxed)
    }

    /// Address of the sheaf that contained an object before.
    pub(crate) fn sheaf_of(&self, object: usize) -> usize {
        (&raw const self.sheaves[object / FIRST - 1]).addr()
    }

    pub(crate) fn handler_ran(&self) -> bool {
        self.other() != NOT_RUN
    }

    pub(crate) fn is_in_handler(&self) -> bool {
        self.in_handler.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn is_of_sheaves(&self) -> bool {
        self.of_sheaves.load(Ordering::Relaxed) != 0
    }
}

/// The two CPUs between which the child is moved; the same one twice if there is only one.
pub(crate) fn places(processors: &[usize]) -> [usize; 2] {
    [processors[0], *processors.get(1).unwrap_or(&processors[0])]
}

fn bind(processor: usize) {
    assert!(Affinity::only(processor).is_some_and(|only| only.bind()));
}

/// Passes the turn to the tracer.
fn meet() {
    // SAFETY: the process raises a signal for itself; the tracer suppresses it.
    let _ = unsafe { libc::raise(libc::SIGSTOP) };
}

/// The value of a word before the transaction.
fn initial(operation: Operation, shut: bool, sheaf: &Sheaf, first: usize) -> usize {
    match operation {
        Operation::InRow(transaction) if shut => return transaction.shut_value(UNEXPECTED),
        Operation::CmpStore if shut => return UNEXPECTED,
        _ if !operation.is_of_sheaves() => return EXPECTED,
        _ => {}
    }
    let count = match (operation.is_push(), shut) {
        (_, false) => 3,
        (true, true) => OBJECTS_MAX,
        (false, true) => 0,
    };
    let mut objects = [0; OBJECTS_MAX];
    for (index, object) in objects[..count].iter_mut().enumerate() {
        *object = first + 2 * index;
    }
    sheaf.fill(&objects[..count])
}

/// Stores known values in the words of both CPUs' slots, and ends on the first CPU.
fn prepare(board: &Board, operation: Operation, places: [usize; 2]) {
    let shut = board.shut.load(Ordering::Relaxed) != 0;
    board.of_sheaves.store(operation.is_of_sheaves().into(), Ordering::Relaxed);
    board.other.store(NOT_RUN, Ordering::Relaxed);
    board.guard.store(shut.into(), Ordering::Relaxed);
    for values in [&board.before, &board.after, &board.drained] {
        values.clear();
    }
    while !drain(&[WORD], &mut |_, _| {}) {}
    for (index, place) in places.into_iter().enumerate() {
        bind(place);
        let value = initial(operation, shut, &board.sheaves[index], FIRST * (index + 1));
        if let Operation::Control(_) = operation {
            board.control.store(value, Ordering::Relaxed);
            continue;
        }
        loop {
            assert!(attach());
            // SAFETY: VACANT is not the bootstrap cursor; this process owns the sheaf.
            let installed = unsafe { cmp_store(WORD, vacant(), value) };
            // Both CPUs can have the same `mm_cid`.
            if installed || load(WORD) != vacant() {
                break;
            }
        }
    }
    bind(places[0]);
    see(board, operation, &board.before);
}

/// Records the words of all slots.
fn see(board: &Board, operation: Operation, values: &Values) {
    match operation {
        Operation::Control(_) => values.push(board.control.load(Ordering::Relaxed)),
        _ => observe(&[WORD], &mut |_, value| values.push(value)),
    }
}

fn perform(board: &Board, operation: Operation) -> usize {
    match operation {
        Operation::Pop => fast::pop(WORD),
        Operation::PopSlow => pop_slow(WORD),
        Operation::PopBySize => fast::pop_by_size(),
        // SAFETY: objects are plain numbers here.
        Operation::Push => usize::from(unsafe { fast::push(WORD, PUSHED) }),
        // SAFETY: as above.
        Operation::PushSlow => usize::from(unsafe { push_slow(WORD, PUSHED) }),
        // SAFETY: as above.
        Operation::PushByAddress => usize::from(unsafe { fast::push_by_address(PUSHED) }),
        // SAFETY: the word holds numbers, and none is the bootstrap cursor.
        Operation::CmpStore => usize::from(unsafe { cmp_store(WORD, EXPECTED, NEW) }),
        Operation::InRow(transaction) => in_rows::perform(transaction, WORD, &board.guard),
        Operation::Drain => {
            let complete = drain(&[WORD], &mut |_, value| board.drained.push(value));
            usize::from(complete)
        }
        Operation::Control(fault) => control::pop(fault, &board.control),
    }
}

/// The handler's transaction: the kind that would do the most harm here.
fn interfere(board: &Board, operation: Operation) -> usize {
    match operation {
        _ if operation.is_pop() || operation == Operation::Drain => pop_slow(WORD),
        _ if operation.is_push() => {
            // SAFETY: objects are plain numbers here.
            let pushed = unsafe { push_slow(WORD, PUSHED_TOO) };
            usize::from(pushed)
        }
        // SAFETY: the word holds numbers, and none is the bootstrap cursor.
        Operation::CmpStore => usize::from(unsafe { cmp_store(WORD, EXPECTED, NEW_TOO) }),
        Operation::InRow(transaction) => in_rows::interfere(transaction, WORD, &board.guard),
        _ => control::pop(Fault::None, &board.control),
    }
}

/// Arguments of the handler.
static CASE: AtomicPtr<Case> = AtomicPtr::new(core::ptr::null_mut());

struct Case {
    board: &'static Board,
    operation: Operation,
}

extern "C" fn on_signal(_: i32) {
    let case = CASE.load(Ordering::Relaxed);
    // SAFETY: set before the handler was installed, and never freed.
    let Case { board, operation } = unsafe { &*case };
    board.in_handler.store(1, Ordering::Relaxed);
    board.other.store(interfere(board, *operation), Ordering::Relaxed);
    board.in_handler.store(0, Ordering::Relaxed);
}

/// The child's main loop; the child ends with its tracer.
pub(crate) fn run(board: &'static Board, operation: Operation, places: [usize; 2]) -> ! {
    let case = Box::leak(Box::new(Case { board, operation }));
    CASE.store(case, Ordering::Relaxed);
    let handler = on_signal as extern "C" fn(i32);
    // SAFETY: the handler uses only atomics and per-CPU words.
    let _ = unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    meet();
    loop {
        prepare(board, operation, places);
        meet();
        let result = perform(board, operation);
        board.result.store(result, Ordering::Relaxed);
        board.here.store(load(WORD), Ordering::Relaxed);
        see(board, operation, &board.after);
        meet();
    }
}
