//! What has changed from one profile to another.
//!
//! Sites are the same if they have the same functions and cache: addresses differ from run to run.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use super::flame;
use super::named::{Profile, what};
use super::text::{objects_of, write_stack};
use crate::output::bytes;
use crate::refusal::Refusal;

/// Lines that are shown.
const COUNT: usize = 30;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sums {
    objects: i128,
    before_bytes: u64,
    after_bytes: u64,
    /// Objects that were freed since profiling began.
    freed: i128,
}

impl Sums {
    fn bytes(&self) -> i128 {
        i128::from(self.after_bytes) - i128::from(self.before_bytes)
    }
}

/// The sums, by what is there and on which stack.
#[derive(Debug)]
pub(crate) struct Changes {
    sites: Vec<(String, Vec<String>, Sums)>,
    title: String,
}

impl Changes {
    pub(crate) fn between(before: &Profile, after: &Profile) -> Changes {
        let mut changes = BTreeMap::<_, Sums>::new();
        for (profile, sign) in [(before, -1), (after, 1)] {
            for site in &profile.dump.sites {
                let stack: Vec<_> =
                    profile.stack(site).map(|frame| frame.function.clone()).collect();
                let sums = changes.entry((what(site), stack)).or_default();
                let (objects, all) = (i128::from(site.objects), i128::from(site.all_objects));
                sums.objects += sign * objects;
                let side = if sign < 0 { &mut sums.before_bytes } else { &mut sums.after_bytes };
                *side = side.saturating_add(site.bytes);
                sums.freed += sign * (all - objects);
            }
        }
        let all = changes.into_iter().map(|((what, stack), sums)| (what, stack, sums));
        let mut sites: Vec<_> = all.collect();
        sites.sort_by_key(|(.., sums)| core::cmp::Reverse(sums.bytes().abs()));
        let title = if before.source == after.source {
            after.source.clone()
        } else {
            format!("from {} to {}", before.source, after.source)
        };
        Changes { sites, title }
    }

    /// Only sites that have grown, and at which nothing was freed in between.
    pub(crate) fn grown_and_never_freed(mut self) -> Changes {
        self.sites.retain(|(.., sums)| sums.bytes() > 0 && sums.freed <= 0);
        self
    }

    pub(crate) fn text(&self) -> String {
        let changed = self.sites.iter().filter(|(.., sums)| sums.bytes() != 0);
        let mut text = format!("{} in all\n", self.total());
        for (what, stack, sums) in changed.clone().take(COUNT) {
            let objects = objects_of(sums.objects.unsigned_abs(), what);
            let sign = if sums.objects < 0 { '-' } else { '+' };
            let _ = writeln!(text, "\n{:>11} {sign}{objects}", signed(sums.bytes()));
            write_stack(&mut text, stack.iter().cloned());
        }
        if let Some(more) = changed.count().checked_sub(COUNT).filter(|more| *more > 0) {
            let _ = writeln!(text, "\n{} more", crate::output::count(more as u64, "site"));
        }
        text
    }

    /// A flame graph of what there is after, in which the differences are colours.
    pub(crate) fn graph(&self) -> Result<Vec<u8>, Refusal> {
        let most = u64::MAX / (self.sites.len() as u64).max(1);
        self.draw("red has grown, blue has shrunk", |sums| {
            vec![sums.before_bytes.min(most), sums.after_bytes.min(most)]
        })
    }

    /// A flame graph of what has grown.
    pub(crate) fn graph_of_growth(&self) -> Result<Vec<u8>, Refusal> {
        let most = u64::MAX / (self.sites.len() as u64).max(1);
        self.draw("what has grown and was never freed", |sums| {
            vec![u64::try_from(sums.bytes()).unwrap_or(0).min(most)]
        })
    }

    fn draw(&self, about: &str, bytes: impl Fn(&Sums) -> Vec<u64>) -> Result<Vec<u8>, Refusal> {
        let line = |(what, stack, sums): &(String, Vec<String>, Sums)| {
            flame::line(what, stack.iter().map(String::as_str), &bytes(sums))
        };
        let lines: Vec<_> = self.sites.iter().map(line).collect();
        flame::draw(format!("{}: {}", self.title, self.total()), about.to_owned(), &lines)
    }

    fn total(&self) -> String {
        signed(self.sites.iter().map(|(.., sums)| sums.bytes()).sum())
    }
}

fn signed(count: i128) -> String {
    format!(
        "{}{}",
        if count < 0 { '-' } else { '+' },
        bytes(count.unsigned_abs().try_into().unwrap_or(u64::MAX))
    )
}

#[cfg(test)]
#[path = "../../tests/unit/prof_changes.rs"]
mod tests;
