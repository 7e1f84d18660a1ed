//! `sheaves rcu`: the readers of a running process, its longest read section, its grace periods.
//!
//! The process is asked again and again, and begins a grace period each time. So a thread that is
//! still in a section of an older sequence has been in that very section since it was seen first.

mod stack;
mod watch;

use core::fmt::{self, Write as _};
use core::time::Duration;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use sheaves_control::layout::{BEGIN_GRACE_PERIOD, RCU};

use crate::ask::answer::{GracePeriods, Rcu};
use crate::ask::{Asked, each, named};
use crate::command_line::RcuOptions;
use crate::output::print;
use crate::refusal::Refusal;
use watch::{Section, Watch};

/// The time between two questions.
const PERIOD: Duration = Duration::from_millis(10);
/// A section of this age is worth stopping its thread, for some microseconds, to see its stack.
const STACK_AGE: Duration = Duration::from_millis(20);

pub(crate) fn rcu(options: &RcuOptions) -> Result<ExitCode, Refusal> {
    let begin = Instant::now();
    let mut reports = each(Asked::attach(named::one(&options.process)?)?, Report::begin)?;
    let mut refused = None;
    while refused.is_none() && begin.elapsed().as_secs_f64() < options.seconds {
        thread::sleep(PERIOD);
        refused = reports.iter_mut().try_for_each(Report::renew).err();
    }
    let mut text = String::new();
    let written = reports.iter().try_for_each(|report| report.write(&mut text));
    // A string takes everything.
    written.map_err(|_| Refusal::output("cannot format the report"))?;
    let status = print(&text)?;
    refused.map_or(Ok(status), Err)
}

/// What was seen of the readers of one heap.
struct Report {
    asked: Asked,
    first: Rcu,
    last: Rcu,
    watch: Watch,
    stack: Option<(Section, stack::Stack)>,
}

impl Report {
    fn begin(mut asked: Asked) -> Result<Self, Refusal> {
        let first: Rcu = asked.ask_json(RCU, BEGIN_GRACE_PERIOD)?;
        let mut watch = Watch::new();
        watch.note(&first, Instant::now());
        Ok(Self { asked, last: first.clone(), first, watch, stack: None })
    }

    fn renew(&mut self) -> Result<(), Refusal> {
        self.asked.renew();
        self.last = self.asked.ask_json(RCU, BEGIN_GRACE_PERIOD)?;
        if let Some(section) = self.watch.note(&self.last, Instant::now())
            && section.age >= STACK_AGE.max(self.watch.stack_age * 2)
        {
            self.watch.stack_age = section.age;
            let stack = stack::of(&self.asked.process, section.tid);
            self.stack = Some((section, stack));
        }
        Ok(())
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let seconds = (self.last.age_ms - self.first.age_ms.min(self.last.age_ms)) as f64 / 1000.0;
        let periods = &self.last.rcu;
        let begun = periods.completed - self.first.rcu.completed.min(periods.completed);
        writeln!(out, "{}: {} grace periods", self.asked.process, periods.completed)?;
        match &periods.under_way {
            Some(period) => writeln!(
                out,
                "grace period {} has been under way for {}",
                period.number,
                time(period.age_us)
            )?,
            None => writeln!(out, "no grace period is under way")?,
        }
        self.write_readers(out)?;
        self.write_longest(out, seconds)?;
        writeln!(
            out,
            "{begun} grace periods in {seconds:.1} s, of which this command asked for some"
        )?;
        write_lengths(out, periods)
    }

    fn write_readers(&self, out: &mut String) -> fmt::Result {
        let shared = self.last.rcu.shared_sections;
        writeln!(out, "threads in a read section: {}", self.last.readers.len())?;
        for reader in &self.last.readers {
            let ended = if reader.has_ended { ", has ended in it" } else { "" };
            let (tid, name, nesting) = (reader.tid, &reader.name, reader.nesting);
            writeln!(out, "  thread {tid} ({name}), nesting {nesting}{ended}")?;
        }
        if shared > 0 {
            writeln!(out, "  {shared} sections of threads that have no record")?;
        }
        Ok(())
    }

    fn write_longest(&self, out: &mut String, seconds: f64) -> fmt::Result {
        let Some(longest) = self.watch.longest() else {
            return writeln!(out, "no section of 20 ms or more was seen in {seconds:.1} s");
        };
        let age_us = longest.age.as_micros() as u64;
        let (age, tid, name) = (time(age_us), longest.tid, &longest.name);
        writeln!(out, "longest section in {seconds:.1} s: {age} or more, thread {tid} ({name})")?;
        let stack = self.stack.as_ref().filter(|(section, _)| self.watch.is_longest(section));
        match stack.map(|(_, stack)| stack) {
            None => Ok(()),
            Some(Err(reason)) => writeln!(out, "  its stack cannot be read: {reason}"),
            Some(Ok(frames)) => frames
                .iter()
                .enumerate()
                .try_for_each(|(number, frame)| writeln!(out, "  #{number} {frame}")),
        }
    }
}

/// Percentiles and a histogram.
fn write_lengths(out: &mut String, periods: &GracePeriods) -> fmt::Result {
    let total = periods.count();
    if total == 0 {
        return Ok(());
    }
    let below = |percent| time(1 << class_of(periods, percent).min(63));
    let mean = time(periods.lengths_us / total);
    write!(out, "length of grace periods: mean {mean}; half below {}, ", below(50))?;
    writeln!(out, "90 % below {}, 99 % below {}, all below {}", below(90), below(99), below(100))?;
    let most = periods.lengths.iter().max().copied().unwrap_or(1).max(1);
    for (class, count) in periods.lengths.iter().enumerate().filter(|(_, count)| **count > 0) {
        let bar = "#".repeat(count.saturating_mul(40).div_ceil(most) as usize);
        writeln!(out, "  below {:>8} {count:>10} {bar}", time(1 << class.min(63)))?;
    }
    Ok(())
}

/// The class with the longest of this share of the grace periods, of which there are some.
fn class_of(periods: &GracePeriods, percent: u128) -> usize {
    let (all, mut sum) = (u128::from(periods.count()) * percent, 0);
    let has_all = |count: &u64| {
        sum += u128::from(*count) * 100;
        sum >= all
    };
    periods.lengths.iter().position(has_all).unwrap_or(0)
}

/// A time with its unit.
fn time(microseconds: u64) -> String {
    match microseconds {
        0..10_000 => format!("{microseconds} us"),
        10_000..10_000_000 => format!("{} ms", microseconds / 1000),
        _ => format!("{} s", microseconds / 1_000_000),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rcu.rs"]
mod tests;
