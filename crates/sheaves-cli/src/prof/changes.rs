//! What has changed from one profile to another.
//!
//! Sites are the same if they have the same functions and cache: addresses differ from run to run.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use super::named::{Profile, what};
use super::text::{bytes, write_stack};

/// Lines that are shown.
const COUNT: usize = 30;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sums {
    objects: i128,
    bytes: i128,
    /// Objects that were freed since profiling began.
    freed: i128,
}

/// The changes, by what is there and on which stack.
#[derive(Debug)]
pub(crate) struct Changes(Vec<(String, Vec<String>, Sums)>);

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
                sums.bytes += sign * i128::from(site.bytes);
                sums.freed += sign * (all - objects);
            }
        }
        let all = changes.into_iter().map(|((what, stack), sums)| (what, stack, sums));
        let mut all: Vec<_> = all.filter(|(.., sums)| sums.bytes != 0).collect();
        all.sort_by_key(|(.., sums)| core::cmp::Reverse(sums.bytes.abs()));
        Changes(all)
    }

    /// Only sites that have grown, and at which nothing was freed in between.
    pub(crate) fn grown_and_never_freed(self) -> Changes {
        let is_leak = |sums: &Sums| sums.bytes > 0 && sums.freed <= 0;
        Changes(self.0.into_iter().filter(|(.., sums)| is_leak(sums)).collect())
    }

    pub(crate) fn text(&self) -> String {
        let total: i128 = self.0.iter().map(|(.., sums)| sums.bytes).sum();
        let mut text = format!("{} in all\n", signed(total));
        for (what, stack, sums) in self.0.iter().take(COUNT) {
            let _ = writeln!(
                text,
                "\n{:>11} {:>+10} objects of {what}",
                signed(sums.bytes),
                sums.objects
            );
            write_stack(&mut text, stack.iter().cloned());
        }
        text
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
