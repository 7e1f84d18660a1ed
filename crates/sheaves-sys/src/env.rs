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

/// The bytes of a value, without the terminator.
pub type Value<'a> = &'a [u8];

/// Looks `name` up and passes its value to `read`; `None` when it is not set.
///
/// Reads `environ`. Where libc has not set it yet (allocation inside the dynamic linker), reads
/// `/proc/self/environ`. Never allocates. Like `getenv`, not safe against a concurrent `setenv`.
pub fn lookup<R>(name: &str, read: impl FnOnce(Value<'_>) -> R) -> Option<R> {
    if crate::process::is_secure() {
        return None;
    }
    // SAFETY: reading the pointer; libc owns it.
    let table = unsafe { environ };
    if table.is_null() {
        return lookup_in_proc(name, read);
    }
    let mut entry = table;
    loop {
        // SAFETY: the table ends with a null pointer and `entry` has not passed it.
        let text = unsafe { *entry };
        if text.is_null() {
            return None;
        }
        // SAFETY: entries are C strings.
        let text = unsafe { CStr::from_ptr(text) };
        if let Some(value) = value_of(text.to_bytes(), name) {
            return Some(read(value));
        }
        // SAFETY: the entry was not the terminating null, so the next one exists.
        entry = unsafe { entry.add(1) };
    }
}

/// How much of `/proc/self/environ` is read when libc is not ready.
const PROC_BYTES: usize = 16 * 1024;

fn lookup_in_proc<R>(name: &str, read: impl FnOnce(Value<'_>) -> R) -> Option<R> {
    let mut buffer = [0_u8; PROC_BYTES];
    let used = crate::process::read_file(c"/proc/self/environ", &mut buffer)?;
    let value = buffer[..used].split(|byte| *byte == 0).find_map(|text| value_of(text, name))?;
    Some(read(value))
}

fn value_of<'a>(text: &'a [u8], name: &str) -> Option<Value<'a>> {
    text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// The meaning of one of `words`, or `None` when unset. Any other value is reported and counts as
/// unset.
#[must_use]
pub fn choice<T: Copy>(name: &str, words: &[(&str, T)]) -> Option<T> {
    let found = lookup(name, |value| {
        let hit = words.iter().find(|(word, _)| word.as_bytes() == value);
        if hit.is_none() {
            // The empty word is not shown.
            let mut shown = words.iter().map(|(word, _)| *word).filter(|word| !word.is_empty());
            let first = shown.next().unwrap_or_default();
            let others = fmt::from_fn(|f| shown.clone().try_for_each(|word| write!(f, ", {word}")));
            complain(name, value, format_args!("expected one of {first}{others}"));
        }
        hit.map(|(_, meaning)| *meaning)
    });
    found.flatten()
}

/// A decimal number within `low..=high`, or `None` when unset. Any other value is reported and
/// counts as unset.
#[must_use]
pub fn number(name: &str, low: usize, high: usize) -> Option<usize> {
    let found = lookup(name, |value| {
        let parsed = core::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        match parsed {
            Some(number) if (low..=high).contains(&number) => Some(number),
            _ => {
                complain(name, value, format_args!("expected a number from {low} to {high}"));
                None
            }
        }
    });
    found.flatten()
}

/// True for `1`, `true`, `yes` and `on`. False for `0`, `false`, `no`, `off`, the empty word and
/// unset; any other value is reported and counts as unset.
#[must_use]
pub fn flag(name: &str) -> bool {
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
    choice(name, WORDS).unwrap_or(false)
}

/// Removes a variable, so that programs started from here do not inherit it.
///
/// Only for constructors, where the process has one thread.
pub fn remove(name: &CStr) {
    // SAFETY: `name` is a C string; in a constructor no other thread reads the environment.
    let _ = unsafe { libc::unsetenv(name.as_ptr()) };
}

#[cold]
fn complain(name: &str, value: Value<'_>, why: fmt::Arguments<'_>) {
    let shown = core::str::from_utf8(value).unwrap_or("(not UTF-8)");
    crate::report::report(format_args!("{name}={shown:.64} is ignored: {why}"));
}

#[cfg(test)]
#[path = "../tests/unit/env.rs"]
mod tests;
