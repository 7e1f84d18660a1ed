//! Everything that a process answers, at one moment.

use serde::Serialize;
use sheaves_control::layout::RCU;

use super::answer::{Rcu, Statistics};
use super::process::Process;
use super::{Asked, each};
use crate::refusal::Refusal;

/// The answers of one heap of a process.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    #[serde(skip)]
    pub(crate) process: Process,
    pub(crate) name: String,
    /// The object that answered, where several have Sheaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
    pub(crate) statistics: Statistics,
    pub(crate) rcu: Rcu,
}

impl Sample {
    /// Asks a heap that is open.
    pub(crate) fn of(asked: &mut Asked) -> Result<Self, Refusal> {
        let (statistics, rcu) = (asked.statistics()?, asked.ask_json(RCU, 0)?);
        let process = asked.process.clone();
        let (name, object) = (process.name.clone(), process.object.clone());
        Ok(Self { process, name, object, statistics, rcu })
    }

    /// Asks a process: a sample for each of its heaps.
    pub(crate) fn take(pid: u32) -> Result<Vec<Self>, Refusal> {
        each(pid, |mut asked| Self::of(&mut asked))
    }

    /// Asks all processes that this user may ask. Those that do not answer are left out.
    pub(crate) fn all() -> Vec<Self> {
        let all = Process::all().into_iter();
        let open = all.filter_map(|process| Asked::attach(process.pid).ok()).flatten();
        open.filter_map(|asked| Self::of(&mut asked.hurried()).ok()).collect()
    }

    /// The sample of the same heap among earlier ones.
    pub(crate) fn among<'a>(&self, before: &'a [Self]) -> Option<&'a Self> {
        let key = |sample: &Self| (sample.process.pid, sample.object.clone());
        before.iter().find(|sample| key(sample) == key(self))
    }

    /// A change of a count per second, since an earlier sample, or else since the start.
    pub(crate) fn rate(&self, before: Option<&Self>, count: impl Fn(&Self) -> u64) -> f64 {
        let uptime_ms = |sample: &Self| sample.statistics.uptime_ms;
        let took_ms = uptime_ms(self).saturating_sub(before.map_or(0, uptime_ms)).max(1);
        let change = count(self).saturating_sub(before.map_or(0, count));
        change as f64 * 1000.0 / took_ms as f64
    }
}
