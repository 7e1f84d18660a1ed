//! The text form: the sites with the most bytes.

use core::fmt::Write as _;

use super::named::{Profile, what};

/// Functions of a stack that are shown.
const FRAMES: usize = 12;

/// Lists the `count` sites with the most bytes in use.
pub(crate) fn list(profile: &Profile, count: usize) -> String {
    let dump = &profile.dump;
    let total = profile.total_bytes();
    let mut text = format!(
        "{} in use that {} s of profiling know, by one sample in {}\n",
        bytes(total),
        dump.until_ms.saturating_sub(dump.since_ms) / 1000,
        bytes(dump.rate_bytes),
    );
    if dump.dropped != 0 {
        let _ = writeln!(text, "{} samples are missing: there was no room for them", dump.dropped);
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
            "\n{:>10} {share:5.1} % {:>10} objects of {}, {} samples",
            bytes(site.bytes),
            site.objects,
            what(site),
            site.samples,
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
        let _ = writeln!(text, "\n{rest} more sites");
    }
    text
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

/// A number of bytes for a reader.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut number, mut unit) = (count as f64, 0);
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{number:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
#[path = "../../tests/unit/prof_text.rs"]
mod tests;
