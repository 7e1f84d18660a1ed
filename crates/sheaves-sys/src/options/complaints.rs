//! What is reported of options: wrong values, and names that resemble an option's.
//!
//! Each complaint is one line, once per tree of processes: the commands of a shell script do not
//! repeat it. The variable `SHEAVES_REPORTED` passes on which lines were printed, as hashes of
//! eight digits. It is set only where there was a complaint, and while the process has one thread.

use core::ffi::CStr;
use core::fmt::{self, Write as _};

use super::environment::{self, PREFIX};
use super::opt::Opt;
use crate::report::{Line, report};
use crate::{errno, object, process, tls};

/// Prints a line about an option, unless a process above has printed it. Only for constructors.
pub fn complain(text: fmt::Arguments<'_>) {
    if !object::is_beside_preload() {
        let mut reported = Reported::of_environment();
        reported.add(text);
        reported.pass_on();
    }
}

/// Reports wrong values and misspelt names. Only for constructors.
pub(super) fn report_wrong(table: &[&Opt]) {
    let mut wrong = 0;
    environment::each(|name, value| wrong += usize::from(judge(table, name, value).is_some()));
    if wrong == 0 || object::is_beside_preload() {
        return;
    }
    let mut reported = Reported::of_environment();
    environment::each(|name, value| match judge(table, name, value) {
        Some(Wrong::Value(option)) => {
            let shown = value[..value.len().min(VALUE_BYTES_MAX)].escape_ascii();
            let expected = option.expected();
            reported.add(format_args!("{name}={shown} is ignored: expected {expected}"));
        }
        Some(Wrong::Name(option)) => {
            let near = option.name();
            reported.add(format_args!("{name} is unknown: did you mean {near}?"));
        }
        None => {}
    });
    reported.pass_on();
}

/// Bytes of a wrong value that are shown.
const VALUE_BYTES_MAX: usize = 64;

enum Wrong<'a> {
    /// The value, for this option.
    Value(&'a Opt),
    /// The name, which resembles that of this option.
    Name(&'a Opt),
}

/// An empty value is none, and a name that resembles no option's may be another program's.
fn judge<'a>(table: &[&'a Opt], name: &str, value: &[u8]) -> Option<Wrong<'a>> {
    if let Some(option) = table.iter().find(|option| option.name() == name) {
        let is_wrong = !value.is_empty() && option.parse(value).is_none();
        return is_wrong.then_some(Wrong::Value(option));
    }
    // Variables of tests.
    if name[PREFIX.len()..].starts_with("TEST_") {
        return None;
    }
    let nearest = table.iter().min_by_key(|option| distance(option.name(), name))?;
    (distance(nearest.name(), name) <= DISTANCE_MAX).then_some(Wrong::Name(nearest))
}

/// Edits between a name and that of an option, up to which the name is taken for a misspelt one.
const DISTANCE_MAX: usize = 2;
/// The longest name that is compared.
const NAME_BYTES_MAX: usize = 32;

/// Bytes to insert, to remove or to replace that make one name of another; many if one is too long.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().max(other.len()) > NAME_BYTES_MAX {
        return usize::MAX;
    }
    // The distances between the part of `one` so far and each beginning of `other`.
    let mut row: [usize; NAME_BYTES_MAX + 1] = core::array::from_fn(|index| index);
    for (index, byte) in one.iter().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], index + 1);
        for (column, other) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

const NAME: &CStr = c"SHEAVES_REPORTED";
const DIGITS: usize = 8;
/// Hashes that are passed on; the oldest make room.
const HASHES_MAX: usize = 16;

/// The value of `SHEAVES_REPORTED`: hashes, the newest last, and a terminator.
struct Reported {
    digits: [u8; HASHES_MAX * DIGITS + 1],
    used: usize,
    is_changed: bool,
}

impl Reported {
    fn of_environment() -> Reported {
        let mut digits = [0; HASHES_MAX * DIGITS + 1];
        let (mut used, mut is_seen) = (0, false);
        environment::each(|name, value| {
            // The first of several counts, as for `getenv`, and `setenv` replaces that.
            if name.as_bytes() != NAME.to_bytes() || core::mem::replace(&mut is_seen, true) {
                return;
            }
            if value.len().is_multiple_of(DIGITS) && value.len() < digits.len() {
                digits[..value.len()].copy_from_slice(value);
                used = value.len();
            }
        });
        Reported { digits, used, is_changed: false }
    }

    /// Prints a line that was not printed yet.
    fn add(&mut self, text: fmt::Arguments<'_>) {
        let (mut line, mut hash) = (Line::new(), Line::new());
        let _ = line.write_fmt(text);
        let mix = |sum, byte: &u8| process::scramble(sum ^ u64::from(*byte));
        let sum = line.as_bytes().iter().fold(1, mix);
        let _ = write!(hash, "{:08x}", sum as u32);
        let hash = hash.as_bytes();
        let mut known = self.digits[..self.used].chunks_exact(DIGITS);
        if known.any(|known| known == hash) || is_closed(libc::STDERR_FILENO) {
            return;
        }
        report(text);
        if self.used == HASHES_MAX * DIGITS {
            self.digits.copy_within(DIGITS..self.used, 0);
            self.used -= DIGITS;
        }
        self.digits[self.used..self.used + DIGITS].copy_from_slice(hash);
        self.used += DIGITS;
        self.is_changed = true;
    }

    /// Passes on what was printed to the programs that are started from here.
    fn pass_on(&self) {
        // Another thread may be reading the environment. A program of musl that uses the library is
        // static, so there is none yet.
        let has_one_thread = tls::is_single_threaded() || cfg!(target_env = "musl");
        if self.is_changed && has_one_thread {
            // SAFETY: both are C strings, and no other thread uses the environment.
            let _ = unsafe { libc::setenv(NAME.as_ptr(), self.digits.as_ptr().cast(), 1) };
        }
    }
}

/// True for a pipe or a connection that nothing reads: a write would send SIGPIPE, which ends most
/// programs.
fn is_closed(fd: i32) -> bool {
    let mut asked = libc::pollfd { fd, events: 0, revents: 0 };
    // SAFETY: one descriptor, valid for the call, which does not wait.
    errno::preserve(|| unsafe { libc::poll(&raw mut asked, 1, 0) });
    asked.revents & (libc::POLLERR | libc::POLLHUP) != 0
}

#[cfg(test)]
#[path = "../../tests/unit/complaints.rs"]
mod tests;
