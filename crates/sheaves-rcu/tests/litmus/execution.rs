//! The events of an execution: the initial writes, then the steps of one path of each thread.
//!
//! Only what the threads give is here: program order, dependencies, exchanges. Which write a read
//! reads from and in which order the writes of a location come is for `candidates` to choose.

use crate::paths::{Access, Action, Path};
use crate::program::{Fence, Litmus, Order};
use crate::relation::{EVENTS_MAX, Relation, Set};

/// An event of an execution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// None for an initial write, which belongs to no thread.
    thread: Option<usize>,
    action: Action,
}

impl Event {
    /// The access to memory, unless the event is a fence.
    pub(crate) fn access(&self) -> Option<Access> {
        match self.action {
            Action::Read(access) | Action::Write(access) => Some(access),
            Action::Fence(_) => None,
        }
    }

    pub(crate) fn is_initial(&self) -> bool {
        self.thread.is_none()
    }
}

/// The events and what the threads say about them.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) events: Vec<Event>,
    /// Program order.
    pub(crate) po: Relation,
    /// From a read to a write whose value is computed from it.
    pub(crate) data: Relation,
    /// From a read to what is in the arms of an `if` that depends on it.
    pub(crate) control: Relation,
    /// From the read of an exchange to its write.
    pub(crate) rmw: Relation,
}

impl Execution {
    /// Puts paths together, one of each thread.
    pub(crate) fn new(litmus: &Litmus, paths: &[&Path]) -> Result<Execution, String> {
        let initial = litmus.initial.iter().enumerate().map(|(location, value)| {
            let access = Access { order: Order::Once, location, value: *value };
            Event { thread: None, action: Action::Write(access) }
        });
        let steps = paths.iter().enumerate().flat_map(|(thread, path)| {
            path.steps.iter().map(move |step| Event { thread: Some(thread), action: step.action })
        });
        let events: Vec<Event> = initial.chain(steps).collect();
        let count = events.len();
        if count > EVENTS_MAX {
            return Err(format!("{count} events are more than {EVENTS_MAX}"));
        }
        let po = Relation::of(count, |a, b| {
            a < b && events[a].thread.is_some() && events[a].thread == events[b].thread
        });
        let empty = Relation::empty(count);
        let [data, control, rmw] = [empty.clone(), empty.clone(), empty];
        let mut execution = Execution { events, po, data, control, rmw };
        let mut first = litmus.initial.len();
        for path in paths {
            execution.depend(path, first);
            first += path.steps.len();
        }
        Ok(execution)
    }

    /// Adds the dependencies of a path whose first step is event `first`.
    fn depend(&mut self, path: &Path, first: usize) {
        for (number, step) in path.steps.iter().enumerate() {
            let to = first + number;
            for from in 0..number {
                if step.data >> from & 1 == 1 {
                    self.data.insert(first + from, to);
                }
                if step.control >> from & 1 == 1 {
                    self.control.insert(first + from, to);
                }
            }
            step.exchanged.into_iter().for_each(|from| self.rmw.insert(first + from, to));
        }
    }

    pub(crate) fn reads(&self) -> Set {
        self.set(|action| matches!(action, Action::Read(_)))
    }

    pub(crate) fn writes(&self) -> Set {
        self.set(|action| matches!(action, Action::Write(_)))
    }

    /// Reads that acquire and writes that release, by their order.
    pub(crate) fn ordered(&self, order: Order) -> Set {
        self.set(|action| match action {
            Action::Read(access) | Action::Write(access) => access.order == order,
            Action::Fence(_) => false,
        })
    }

    pub(crate) fn fences(&self, fence: Fence) -> Set {
        self.set(|action| matches!(action, Action::Fence(found) if *found == fence))
    }

    /// Pairs of events of one thread.
    pub(crate) fn internal(&self) -> Relation {
        &self.po | &self.po.inverse()
    }

    /// Pairs of accesses to one location.
    pub(crate) fn same_location(&self) -> Relation {
        let location = |event: usize| self.events[event].access().map(|access| access.location);
        Relation::of(self.events.len(), |a, b| location(a).is_some() && location(a) == location(b))
    }

    fn set(&self, is_in: impl Fn(&Action) -> bool) -> Set {
        let events = self.events.iter().enumerate();
        events
            .filter(|(_, event)| is_in(&event.action))
            .fold(0, |set, (number, _)| set | 1 << number)
    }
}
