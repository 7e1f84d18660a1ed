//! Everything that a process answers, at one moment.

use serde::Serialize;
use sheaves_control::layout::RCU;

use super::Asked;
use super::answer::{Rcu, Statistics};
use super::process::Process;
use crate::refusal::Refusal;

/// The answers of one process.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    #[serde(skip)]
    pub(crate) process: Process,
    pub(crate) name: String,
    pub(crate) statistics: Statistics,
    pub(crate) rcu: Rcu,
}

impl Sample {
    /// Asks a process that is open.
    pub(crate) fn of(asked: &mut Asked) -> Result<Self, Refusal> {
        let (statistics, rcu) = (asked.statistics()?, asked.ask_json(RCU, 0)?);
        let process = asked.process.clone();
        Ok(Self { name: process.name.clone(), process, statistics, rcu })
    }

    /// Asks a process.
    pub(crate) fn take(pid: u32) -> Result<Self, Refusal> {
        Self::of(&mut Asked::attach(pid)?)
    }

    /// Asks all processes that this user may ask. Those that do not answer are left out.
    pub(crate) fn all() -> Vec<Self> {
        let all = Process::all().into_iter();
        let take = |process: Process| Self::of(&mut Asked::attach(process.pid)?.hurried());
        all.filter_map(|process| take(process).ok()).collect()
    }

    /// A change of a count per second, since an earlier sample, or else since the start.
    pub(crate) fn rate(&self, before: Option<&Self>, count: impl Fn(&Self) -> u64) -> f64 {
        let uptime_ms = |sample: &Self| sample.statistics.uptime_ms;
        let took_ms = uptime_ms(self).saturating_sub(before.map_or(0, uptime_ms)).max(1);
        let change = count(self).saturating_sub(before.map_or(0, count));
        change as f64 * 1000.0 / took_ms as f64
    }
}
