//! Everything that a process answers, at one moment.

use alloc::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};

use serde::{Serialize, Serializer};
use sheaves_control::layout::RCU;

use super::answer::{Rcu, Statistics};
use super::process::Process;
use super::{Asked, LIMIT_OF_ALL, LIMIT_OF_MANY, answers, apart, each};
use crate::refusal::Refusal;

/// Caches and readers of all processes together for which there is room.
const ROWS_MAX: usize = 1 << 17;

/// The answers of one heap of a process.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    #[serde(skip)]
    pub(crate) process: Process,
    pub(crate) name: String,
    /// The object that answered, where several have Sheaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
    /// What the process has in memory, by the kernel.
    pub(crate) resident_bytes: u64,
    pub(crate) statistics: Statistics,
    pub(crate) rcu: Rcu,
}

impl Sample {
    /// Asks a heap that is open.
    pub(crate) fn of(asked: &mut Asked) -> Result<Self, Refusal> {
        let (statistics, rcu) = (asked.statistics()?, asked.ask_json(RCU, 0)?);
        let process = asked.process.clone();
        let (name, object) = (process.name.clone(), process.object.clone());
        let resident_bytes = process.resident_bytes();
        Ok(Self { process, name, object, resident_bytes, statistics, rcu })
    }

    /// Asks each heap of a process that is open, as often as wanted.
    pub(crate) fn of_each(all: &mut [Asked]) -> Result<Vec<Self>, Refusal> {
        all.iter_mut().for_each(Asked::renew);
        each(all, Self::of)
    }

    /// The sample of the same heap among earlier ones. A heap that is younger than that is another:
    /// the process has called `exec` meanwhile, or its number is that of a new one.
    pub(crate) fn among<'a>(&self, before: &'a [Self]) -> Option<&'a Self> {
        let key = |sample: &Self| (sample.process.pid, sample.object.clone());
        let age_ms = |sample: &Self| sample.statistics.uptime_ms;
        before.iter().find(|sample| key(sample) == key(self) && age_ms(sample) <= age_ms(self))
    }

    /// A change of a count per second, since an earlier sample, or else since the start.
    pub(crate) fn rate(&self, before: Option<&Self>, count: impl Fn(&Self) -> u64) -> f64 {
        let uptime_ms = |sample: &Self| sample.statistics.uptime_ms;
        let took_ms = uptime_ms(self).saturating_sub(before.map_or(0, uptime_ms)).max(1);
        let change = count(self).saturating_sub(before.map_or(0, count));
        change as f64 * 1000.0 / took_ms as f64
    }
}

/// A process that has a control page, and gives no answer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Silent {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// What is wrong, and what to do about it.
    pub(crate) silent: String,
}

/// What many processes answer.
#[derive(Debug, Default)]
pub(crate) struct All {
    pub(crate) samples: Vec<Sample>,
    pub(crate) silent: Vec<Silent>,
}

/// What comes of a process.
enum Found {
    /// It is none that this user may ask.
    Nothing,
    Answers(Vec<Sample>),
    Silent(Silent),
}

impl All {
    /// Asks all processes that this user may ask, but for those of this program, which have control
    /// pages, too.
    pub(crate) fn ask() -> Self {
        /// Those that had no answer the last time have their turn at the end.
        static SILENT: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
        let mut before = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
        let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = program("self");
        let mut pids = Process::others();
        pids.retain(|pid| own.is_none() || program(&pid.to_string()) != own);
        pids.sort_by_key(|pid| before.contains(pid));
        let all = Self::ask_each(pids);
        *before = all.silent.iter().map(|silent| silent.pid).collect();
        all
    }

    /// Asks these processes.
    pub(crate) fn ask_each(pids: Vec<u32>) -> Self {
        let (mut all, mut rows) = (Self::default(), 0);
        apart::for_each(pids, LIMIT_OF_MANY, LIMIT_OF_ALL, look, |pid, found| match found {
            Some(Found::Nothing) => {}
            Some(Found::Silent(silent)) => all.silent.push(silent),
            Some(Found::Answers(samples)) => {
                let count = |it: &Sample| it.statistics.caches.len() + it.rcu.readers.len();
                rows += samples.iter().map(count).sum::<usize>();
                match samples.first() {
                    Some(sample) if rows > ROWS_MAX => {
                        let silent = "there is no room for its answer".to_owned();
                        all.silent.push(Silent { pid, name: sample.name.clone(), silent });
                    }
                    _ => all.samples.extend(samples),
                }
            }
            None => all.silent.extend(late(pid)),
        });
        all.samples.sort_by_key(|sample| sample.process.pid);
        all.silent.sort_by_key(|silent| silent.pid);
        all
    }
}

/// An array of both.
impl Serialize for All {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Entry<'a> {
            Sample(&'a Sample),
            Silent(&'a Silent),
        }
        let silent = self.silent.iter().map(Entry::Silent);
        to.collect_seq(self.samples.iter().map(Entry::Sample).chain(silent))
    }
}

/// Asks one of many processes.
fn look(pid: u32) -> Found {
    let Some(process) = Process::read(pid) else { return Found::Nothing };
    let is_open = process.open_pages().is_ok_and(|mut pages| pages.next().is_some());
    if !is_open && process.mapped_pages().next().is_none() {
        return Found::Nothing;
    }
    let asked = Asked::attach_for(pid, LIMIT_OF_MANY);
    match asked.and_then(|all| answers(all, |mut asked| Sample::of(&mut asked))) {
        Ok((samples, _)) => Found::Answers(samples),
        Err(_) if process.has_ended() => Found::Nothing,
        Err(refusal) => Found::Silent(Silent { pid, name: process.name, silent: refusal.line }),
    }
}

/// A process that let this command wait, if it is known to have a page.
fn late(pid: u32) -> Option<Silent> {
    let process = Process::read(pid)?;
    process.open_pages().ok()?.next()?;
    let silent = format!("{process} lets those wait that ask it");
    Some(Silent { pid, name: process.name, silent })
}

#[cfg(test)]
#[path = "../../tests/unit/ask_sample.rs"]
mod tests;
