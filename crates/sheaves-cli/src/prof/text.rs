//! The text form: the sites with the most bytes.

use core::fmt::Write as _;

use super::named::{Profile, what};
use crate::output::{bytes, count as count_of};

/// Functions of a stack that are shown.
const FRAMES: usize = 12;

/// Lists the `count` sites with the most bytes in use.
pub(crate) fn list(profile: &Profile, count: usize) -> String {
    let dump = &profile.dump;
    let total = profile.total_bytes();
    let mut text = profile.head();
    match profile.about() {
        about if about.is_empty() => text.push('\n'),
        about => drop(writeln!(text, ", {about}")),
    }
    if dump.dropped != 0 {
        let samples = count_of(dump.dropped, "sample");
        let _ = writeln!(text, "there was no room for {samples}, whose memory is missing here");
    }
    if !dump.short.is_empty() {
        let _ = writeln!(text, "stacks of code without frame pointers are short: {}", dump.short);
    }
    let mut sites: Vec<_> = dump.sites.iter().filter(|site| site.bytes != 0).collect();
    sites.sort_by_key(|site| core::cmp::Reverse(site.bytes));
    for site in sites.iter().take(count) {
        let share = site.bytes as f64 * 100.0 / total.max(1) as f64;
        let _ = writeln!(
            text,
            "\n{:>10} {share:5.1} % {}, {}",
            bytes(site.bytes),
            objects_of(site.objects.into(), &what(site)),
            count_of(site.samples, "sample"),
        );
        write_stack(
            &mut text,
            profile.stack(site).map(|frame| {
                let place = if frame.line == 0 {
                    String::new()
                } else {
                    format!("  {}:{}", frame.file, frame.line)
                };
                format!("{}{place}", frame.function)
            }),
        );
    }
    if let Some(rest) = sites.len().checked_sub(count).filter(|rest| *rest > 0) {
        let _ = writeln!(text, "\n{} more: see --count", count_of(rest as u64, "site"));
    }
    text
}

/// Objects of a cache, in words.
pub(crate) fn objects_of(count: u128, what: &str) -> String {
    format!("{count} {} of {what}", if count == 1 { "object" } else { "objects" })
}

/// Writes the functions of a stack, one a line.
pub(crate) fn write_stack(text: &mut String, mut frames: impl Iterator<Item = String>) {
    for frame in frames.by_ref().take(FRAMES) {
        let _ = writeln!(text, "             {frame}");
    }
    match frames.count() {
        0 => {}
        more => drop(writeln!(text, "             and {more} more")),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/prof_text.rs"]
mod tests;
