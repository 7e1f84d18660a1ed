//! Every rseq critical section, interrupted at every instruction boundary.
//!
//! A child process performs one transaction at a time under ptrace. A breakpoint, which is a
//! preemption, stops it at each boundary of each critical section and of the instructions that arm
//! it. While stopped, the child may be migrated to another CPU, and a signal may be pending whose
//! handler works on the same word. The kernel must then abort the critical section, unless it has
//! not begun or has committed. In the end the transaction must have happened exactly once, on the
//! slot of the thread at that time, or not at all if it reports that.
//!
//! `control` has critical sections with deliberate faults, which the same procedure must find.

mod accounts;
mod child;
mod control;
mod in_rows;
#[cfg_attr(target_arch = "aarch64", path = "machine_aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "machine_x86_64.rs")]
mod machine;
mod sections;
mod traced;
mod tracee;

use std::collections::{BTreeMap, BTreeSet};

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{EngineMode, facts, mode};

use self::child::{Input, Operation};
use self::control::Fault;
use self::sections::Section;
use self::tracee::{Stop, Tracee};
use crate::one_slot::{alone, processors};

/// What happens to the child while it is stopped at a boundary.
#[derive(Debug, Clone, Copy)]
struct Interference {
    migrate: bool,
    signal: bool,
}

const INTERFERENCES: [Interference; 4] = [
    Interference { migrate: false, signal: false },
    Interference { migrate: true, signal: false },
    Interference { migrate: false, signal: true },
    Interference { migrate: true, signal: true },
];

/// The fault that one run has shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Wrong {
    /// Interrupted inside, but continued without an abort.
    NotAborted,
    /// Aborted after the commit.
    AbortedAfterCommit,
    /// Objects or numbers are missing or duplicated.
    Accounts(String),
    /// The child ended, or stopped at an unexpected place.
    Astray(String),
}

/// The result of a run.
enum Run {
    /// The transaction did not reach the boundary.
    Elsewhere,
    /// It failed for lack of a slot, or the slot changed afterwards. This is allowed, but the run
    /// shows nothing.
    Again(&'static str),
    Reached(Vec<Wrong>),
}

/// All runs of one operation.
#[derive(Default)]
struct Survey {
    runs: usize,
    /// Boundaries that were reached, by the start of their critical section.
    reached: BTreeMap<usize, BTreeSet<usize>>,
    wrong: BTreeMap<Wrong, usize>,
}

/// Number of attempts for a run that shows nothing.
const ATTEMPTS: usize = 20;

impl Survey {
    /// `None` where ptrace is not permitted.
    fn of(operation: Operation, sections: &[Section]) -> Option<Survey> {
        let places = child::places(&processors());
        let tracee = Tracee::start(operation, places)?;
        let mut survey = Survey::default();
        for section in sections {
            for input in [Input::Open, Input::Shut] {
                survey.section(&tracee, section, input);
            }
        }
        Some(survey)
    }

    fn section(&mut self, tracee: &Tracee, section: &Section, input: Input) {
        for boundary in section.boundaries() {
            for interference in INTERFERENCES {
                let mut run = Run::Again("no attempt");
                for _ in 0..ATTEMPTS {
                    run = one_run(tracee, section, boundary, input, interference);
                    if !matches!(run, Run::Again(_)) {
                        break;
                    }
                }
                match run {
                    // Not even the first boundary: this operation does not use the critical
                    // section.
                    Run::Elsewhere if boundary == section.entry => return,
                    Run::Elsewhere => break,
                    Run::Reached(found) => {
                        for wrong in found {
                            *self.wrong.entry(wrong).or_default() += 1;
                        }
                    }
                    Run::Again(why) => {
                        let wrong = Wrong::Astray(format!("always {why}"));
                        *self.wrong.entry(wrong).or_default() += 1;
                    }
                }
                self.runs += 1;
                self.reached.entry(section.start).or_default().insert(boundary);
            }
        }
    }

    fn saw(&self, wanted: impl Fn(&Wrong) -> bool) -> bool {
        self.wrong.keys().any(wanted)
    }

    /// Boundaries that no input reached, in the critical sections that were entered.
    fn missed(&self, sections: &[Section]) -> Vec<usize> {
        let entered = sections.iter().filter(|section| self.reached.contains_key(&section.start));
        entered
            .flat_map(|section| {
                let reached = &self.reached[&section.start];
                section.boundaries().into_iter().filter(|boundary| !reached.contains(boundary))
            })
            .collect()
    }
}

/// One transaction, stopped once at `boundary`.
fn one_run(
    tracee: &Tracee,
    section: &Section,
    boundary: usize,
    input: Input,
    interference: Interference,
) -> Run {
    let board = tracee.board();
    board.set_input(input);
    tracee.settle();
    let before = accounts::Before::of(board);
    let planted = tracee.plant(boundary);
    let stop = tracee.resume(0);
    tracee.lift(planted);
    match stop {
        Stop::Rendezvous => return Run::Elsewhere,
        Stop::Trap(ip) if ip == boundary => {}
        other => return Run::Reached(vec![Wrong::Astray(format!("{other:?} at a boundary"))]),
    }
    tracee.set_ip(boundary);
    if interference.migrate {
        tracee.migrate();
    }
    let signal = if interference.signal { libc::SIGUSR1 } else { 0 };
    let aborted = match to_the_end(tracee, section, signal) {
        Ok(aborted) => aborted,
        Err(wrong) => return Run::Reached(vec![wrong]),
    };
    if aborted && boundary < section.start {
        // The child was not in the section yet. It was preempted later, when it was.
        return Run::Again("preempted");
    }
    let mut found = Vec::new();
    if aborted != (section.start..section.end).contains(&boundary) {
        found.push(if aborted { Wrong::AbortedAfterCommit } else { Wrong::NotAborted });
    }
    let operation = tracee.operation();
    match before.compare(board, operation, interference.signal) {
        Err(text) => found.push(Wrong::Accounts(text)),
        Ok(true) if input == Input::Shut && operation.can_refuse() => {
            found.push(Wrong::Accounts("not refused".into()));
        }
        Ok(false) if input == Input::Open && !operation.may_refuse(interference.signal) => {
            return Run::Again("refused");
        }
        // A child that is migrated after the commit is no longer on the slot of the transaction.
        Ok(true) if boundary < section.end && !accounts::is_in_place(board, operation) => {
            return Run::Again("on another slot");
        }
        Ok(_) => {}
    }
    Run::Reached(found)
}

/// Lets the transaction finish; true when it passed its abort handler.
fn to_the_end(tracee: &Tracee, section: &Section, mut signal: i32) -> Result<bool, Wrong> {
    let mut planted = Some(tracee.plant(section.abort));
    let mut aborted = false;
    loop {
        match tracee.resume(signal) {
            Stop::Trap(ip) if ip == section.abort && planted.is_some() => {
                planted.take().into_iter().for_each(|planted| tracee.lift(planted));
                tracee.set_ip(ip);
                if tracee.board().is_in_handler() {
                    // The handler's own transaction was preempted, which does not count.
                    if !matches!(tracee.step(), Stop::Trap(_)) {
                        return Err(Wrong::Astray("one step from an abort handler".into()));
                    }
                    planted = Some(tracee.plant(section.abort));
                } else {
                    aborted = true;
                }
            }
            Stop::Rendezvous => {
                planted.take().into_iter().for_each(|planted| tracee.lift(planted));
                return Ok(aborted);
            }
            other => return Err(Wrong::Astray(format!("{other:?} after a boundary"))),
        }
        signal = 0;
    }
}

fn is_rseq() -> bool {
    assert!(attach());
    let is_rseq = mode() == EngineMode::Rseq;
    if !is_rseq {
        println!("skipped: this engine has no sections");
    }
    is_rseq
}

#[test]
fn every_boundary_of_every_section() {
    let _alone = alone();
    if !is_rseq() {
        return;
    }
    let all = sections::of_program();
    let mut entered = BTreeSet::new();
    let mut runs = 0;
    for operation in Operation::ALL {
        // With a fence a drain needs no transactions.
        if operation == Operation::Drain && facts().fence {
            continue;
        }
        // The slow paths of whole functions have other sections.
        let is_whole = matches!(operation, Operation::PopBySize | Operation::PushByAddress);
        let sections: Vec<_> =
            all.iter().copied().filter(|section| section.leaves == is_whole).collect();
        let Some(survey) = Survey::of(operation, &sections) else {
            println!("skipped: ptrace is not permitted here");
            return;
        };
        assert!(survey.wrong.is_empty(), "{operation:?}: {:#?}", survey.wrong);
        assert_eq!(survey.reached.len(), 1, "{operation:?} is one section");
        let missed = survey.missed(&sections);
        assert!(missed.is_empty(), "{operation:?} never came to {missed:x?}");
        entered.extend(survey.reached.keys().copied());
        runs += survey.runs;
    }
    println!("{runs} runs through {} of {} sections", entered.len(), all.len());
}

/// A procedure that finds no fault proves something only if it can find faults.
#[test]
fn faults_are_found() {
    let _alone = alone();
    if !is_rseq() {
        return;
    }
    for fault in Fault::ALL {
        let section = control::section(fault);
        let Some(survey) = Survey::of(Operation::Control(fault), &[section]) else {
            println!("skipped: ptrace is not permitted here");
            return;
        };
        let unaborted = survey.saw(|wrong| *wrong == Wrong::NotAborted);
        let twice = survey.saw(|wrong| *wrong == Wrong::AbortedAfterCommit);
        let accounts = survey.saw(|wrong| matches!(wrong, Wrong::Accounts(_)));
        let astray = survey.saw(|wrong| matches!(wrong, Wrong::Astray(_)));
        let expected = match fault {
            Fault::None => (false, false, false),
            Fault::Unarmed | Fault::EndsEarly => (true, false, true),
            Fault::EndsLate => (false, true, true),
        };
        assert!(!astray, "{fault:?}: {:#?}", survey.wrong);
        assert_eq!((unaborted, twice, accounts), expected, "{fault:?}: {:#?}", survey.wrong);
        assert!(survey.missed(&[section]).is_empty(), "{fault:?}");
    }
}
