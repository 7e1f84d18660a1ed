//! Options from the environment, readable before libc has initialised itself.
//!
//! All options are named `SHEAVES_*`. In secure-execution mode (`AT_SECURE`: setuid, setgid or file
//! capabilities) the environment is not trusted and every option counts as absent. An invalid value
//! is reported in one line and counts as absent, too.

use core::ffi::{CStr, c_char};
use core::fmt;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Looks `name` up and passes its value to `read`; `None` when it is not set.
///
/// Reads `environ` or, inside the dynamic linker, before libc has set that, `/proc/self/environ`.
/// Never allocates. Like `getenv`, not safe against a concurrent `setenv`.
pub fn lookup<R>(name: &str, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    if crate::process::is_secure() {
        return None;
    }
    // SAFETY: reading the pointer; libc owns it.
    let table = unsafe { environ };
    if table.is_null() {
        return lookup_in_proc(name, read);
    }
    // SAFETY: the table ends with a null pointer, where `take_while` ends.
    let entries = (0..).map(|index| unsafe { table.wrapping_add(index).read() });
    let mut texts = entries.take_while(|entry| !entry.is_null());
    // SAFETY: entries are C strings.
    let text_of = |entry| unsafe { CStr::from_ptr(entry) };
    texts.find_map(|entry| value_of(text_of(entry).to_bytes(), name)).map(read)
}

/// Bytes of `/proc/self/environ` that are read.
const PROC_BYTES: usize = 16 * 1024;

// Its buffer is no part of the frames of callers: the first touch of each page is a page fault.
#[cold]
#[inline(never)]
fn lookup_in_proc<R>(name: &str, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut buffer = [0_u8; PROC_BYTES];
    let used = crate::process::read_file(c"/proc/self/environ", &mut buffer)?;
    let value = buffer[..used].split(|byte| *byte == 0).find_map(|text| value_of(text, name))?;
    Some(read(value))
}

fn value_of<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// The meaning of the value, which is one of `words`; `None` when unset. Any other value is
/// reported and counts as unset.
#[must_use]
pub fn choice<T: Copy>(name: &str, words: &[(&str, T)]) -> Option<T> {
    // The empty word is not shown.
    let mut shown = words.iter().map(|(word, _)| *word).filter(|word| !word.is_empty());
    let first = shown.next().unwrap_or_default();
    let others = fmt::from_fn(|f| shown.clone().try_for_each(|word| write!(f, ", {word}")));
    let meaning = |value: &[u8]| {
        let hit = words.iter().find(|(word, _)| word.as_bytes() == value);
        hit.map(|(_, meaning)| *meaning)
    };
    parsed(name, meaning, format_args!("expected one of {first}{others}"))
}

/// A decimal number within `low..=high`, or `None` when unset. Any other value is reported and
/// counts as unset.
#[must_use]
pub fn number(name: &str, low: usize, high: usize) -> Option<usize> {
    let parse = |value: &[u8]| core::str::from_utf8(value).ok()?.parse().ok();
    let within = |value: &[u8]| parse(value).filter(|number| (low..=high).contains(number));
    parsed(name, within, format_args!("expected a number from {low} to {high}"))
}

/// The N of a fraction `1/N`, up to `high`; `None` when unset or `0`. Any other value is reported
/// and counts as unset.
#[must_use]
pub fn fraction(name: &str, high: usize) -> Option<usize> {
    let parse = |value: &[u8]| match value {
        b"0" => Some(0),
        _ => {
            let number = core::str::from_utf8(value).ok()?.strip_prefix("1/")?.parse().ok()?;
            (1..=high).contains(&number).then_some(number)
        }
    };
    parsed(name, parse, format_args!("expected 0, or 1/N with N up to {high}"))
        .filter(|number| *number != 0)
}

/// A decimal number up to `high`, or `usize::MAX` for `-1`; `None` when unset. Any other value is
/// reported and counts as unset.
#[must_use]
pub fn number_or_never(name: &str, high: usize) -> Option<usize> {
    let parse = |value: &[u8]| match value {
        b"-1" => Some(usize::MAX),
        _ => core::str::from_utf8(value).ok()?.parse().ok().filter(|number| *number <= high),
    };
    parsed(name, parse, format_args!("expected a number from 0 to {high}, or -1"))
}

/// A limit on memory, see [`limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `auto`: that of the control groups.
    Auto,
    /// Bytes, at least 1 MiB.
    Bytes(usize),
    /// 1 to 100.
    Percent(usize),
}

/// `auto`, a number of bytes with an optional suffix (`K`, `M`, `G`, `T`: powers of 1024), or a
/// percentage such as `50%`; `None` when unset. Any other value is reported and counts as unset.
#[must_use]
pub fn limit(name: &str) -> Option<Limit> {
    let expected = format_args!("expected auto, bytes such as 512M (at least 1M), or 1% to 100%");
    parsed(name, parse_limit, expected)
}

fn parse_limit(value: &[u8]) -> Option<Limit> {
    let text = core::str::from_utf8(value).ok()?;
    if text == "auto" {
        return Some(Limit::Auto);
    }
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent))?;
        return Some(Limit::Percent(percent));
    }
    let suffix = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(suffix);
    let shift = ["", "K", "M", "G", "T"].iter().position(|known| *known == suffix)? * 10;
    let bytes = number.parse::<usize>().ok()?.checked_mul(1 << shift)?;
    (bytes >= 1 << 20).then_some(Limit::Bytes(bytes))
}

/// The value as `parse` understands it. Another value is reported, with what was expected.
fn parsed<T>(
    name: &str,
    parse: impl FnOnce(&[u8]) -> Option<T>,
    expected: fmt::Arguments<'_>,
) -> Option<T> {
    let found = lookup(name, |value| {
        let meaning = parse(value);
        if meaning.is_none() {
            let shown = core::str::from_utf8(value).unwrap_or("(not UTF-8)");
            crate::report::report(format_args!("{name}={shown:.64} is ignored: {expected}"));
        }
        meaning
    });
    found.flatten()
}

/// True for `1`, `true`, `yes` and `on`. False for `0`, `false`, `no`, `off`, the empty word and
/// unset; any other value is reported and counts as unset.
#[must_use]
pub fn flag(name: &str) -> bool {
    flag_or(name, false)
}

/// [`flag`], and what it is when unset.
#[must_use]
pub fn flag_or(name: &str, default: bool) -> bool {
    const WORDS: &[(&str, bool)] = &[
        ("1", true),
        ("true", true),
        ("yes", true),
        ("on", true),
        ("", false),
        ("0", false),
        ("false", false),
        ("no", false),
        ("off", false),
    ];
    choice(name, WORDS).unwrap_or(default)
}

/// Removes a variable, so that programs started from here do not inherit it.
///
/// Only for constructors, where the process has one thread.
pub fn remove(name: &CStr) {
    // SAFETY: `name` is a C string; in a constructor no other thread reads the environment.
    let _ = unsafe { libc::unsetenv(name.as_ptr()) };
}

#[cfg(test)]
#[path = "../tests/unit/env.rs"]
mod tests;
