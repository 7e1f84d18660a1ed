//! One option: its name, what its value may be, and the value.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt::{self, Display, Write as _};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::process;
use crate::report::Line;

/// The value of an option that is not set and has no default.
pub(super) const UNSET: u64 = u64::MAX;
/// The value that is written `-1`.
pub const NEVER: u64 = u64::MAX - 1;

/// An option. Its value is a number, which is constant once the options are read, but for
/// [`Opt::set`].
#[derive(Debug)]
pub struct Opt {
    name: &'static str,
    kind: Kind,
    value: AtomicU64,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// One of these words, with its number.
    Words(&'static [(&'static str, u64)]),
    /// A number in these bounds.
    Number(u64, u64),
    /// A number up to this one, or `-1` for [`NEVER`].
    NumberOrNever(u64),
    /// `0`, or `1/N` with an N up to this one: the N.
    Fraction(u64),
    /// A [`Limit`].
    Limit,
    /// A path, which is kept there: its length.
    Path(&'static PathPlace),
    /// Anything: the library does not use it.
    NotRead,
}

pub(super) const FLAG: &[(&str, u64)] =
    &[("1", 1), ("true", 1), ("yes", 1), ("on", 1), ("0", 0), ("false", 0), ("no", 0), ("off", 0)];

/// The words of an option that is off, on, or on at a higher level.
pub(super) const LEVEL: &[(&str, u64)] = &{
    let mut words = [("2", 2); FLAG.len() + 1];
    let (flags, _) = words.split_at_mut(FLAG.len());
    flags.copy_from_slice(FLAG);
    words
};

/// A limit on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `auto`: that of the control groups.
    Auto,
    /// Bytes, at least 1 MiB.
    Bytes(usize),
    /// 1 to 100.
    Percent(usize),
}

impl Opt {
    pub(super) const fn new(name: &'static str, kind: Kind, default: u64) -> Opt {
        Opt { name, kind, value: AtomicU64::new(default) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The value of an option that has a default.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed: a number; nothing is published through it but a path, see `path`.
        self.value.load(Ordering::Relaxed)
    }

    /// The value; `None` if the option is not set and has no default.
    #[inline]
    pub fn asked(&self) -> Option<u64> {
        Some(self.get()).filter(|value| *value != UNSET)
    }

    /// The value of an option that is on or off.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.get() == 1
    }

    /// The word that is the value, or the first that means the same; empty if the option is not set
    /// and has no default.
    #[unsafe(link_section = ".text.sheaves_load")]
    pub fn word(&self) -> &'static str {
        let Kind::Words(words) = &self.kind else { return "" };
        let value = self.get();
        words.iter().find(|(_, number)| *number == value).map_or("", |(word, _)| word)
    }

    /// The value of an option that is a limit.
    pub fn limit(&self) -> Option<Limit> {
        Some(match self.asked()? as usize {
            0 => Limit::Auto,
            percent @ 1..=100 => Limit::Percent(percent),
            bytes => Limit::Bytes(bytes),
        })
    }

    /// The value of an option that is a path.
    pub fn path(&self) -> Option<&'static CStr> {
        let Kind::Path(place) = &self.kind else { return None };
        // Acquire pairs with the Release in `set`: the bytes.
        let is_set = self.value.load(Ordering::Acquire) != UNSET;
        // SAFETY: written before the length, by one thread, and never again.
        is_set.then(|| CStr::from_bytes_until_nul(unsafe { &*place.0.get() }).ok()).flatten()
    }

    /// Sets the value: what the program asks for comes after the environment.
    pub fn set(&self, value: u64) {
        // Release pairs with the Acquire in `path`.
        self.value.store(value, Ordering::Release);
    }

    /// Sets the value to that of a variable, unless that is empty or wrong. For the one thread that
    /// reads the environment.
    pub(super) fn take(&self, text: &[u8]) {
        let Some(value) = self.parse(text) else { return };
        if let Kind::Path(place) = &self.kind {
            // SAFETY: one thread writes it, once, before the length is there.
            let path = unsafe { &mut *place.0.get() };
            if !expand(text, path) {
                return;
            }
        }
        self.set(value);
    }

    /// The value that a text stands for; `None` if it is empty or wrong.
    pub(super) fn parse(&self, text: &[u8]) -> Option<u64> {
        let word = core::str::from_utf8(text);
        let number = || word.ok()?.parse::<u64>().ok();
        match self.kind {
            _ if text.is_empty() => None,
            Kind::Words(words) => {
                words.iter().find(|(word, _)| word.as_bytes() == text).map(|(_, number)| *number)
            }
            Kind::Number(low, high) => number().filter(|number| (low..=high).contains(number)),
            Kind::NumberOrNever(_) if text == b"-1" => Some(NEVER),
            Kind::NumberOrNever(high) => number().filter(|number| *number <= high),
            Kind::Fraction(_) if text == b"0" => Some(0),
            Kind::Fraction(high) => {
                let one_in = word.ok()?.strip_prefix("1/")?.parse().ok()?;
                (1..=high).contains(&one_in).then_some(one_in)
            }
            Kind::Limit => parse_limit(word.ok()?),
            Kind::Path(_) => (text.len() < PATH_BYTES).then_some(text.len() as u64),
            Kind::NotRead => Some(0),
        }
    }

    /// What the value may be, for a report.
    pub(super) fn expected(&self) -> impl Display {
        fmt::from_fn(|f| match self.kind {
            Kind::Words(words) => {
                write!(f, "one of {}", words[0].0)?;
                words[1..].iter().try_for_each(|(word, _)| write!(f, ", {word}"))
            }
            Kind::Number(low, high) => write!(f, "a number from {low} to {high}"),
            Kind::NumberOrNever(high) => write!(f, "a number from 0 to {high}, or -1"),
            Kind::Fraction(high) => write!(f, "0, or 1/N with N up to {high}"),
            Kind::Limit => f.write_str("auto, bytes such as 512M (at least 1M), or 1% to 100%"),
            Kind::Path(_) => write!(f, "a path of at most {} bytes", PATH_BYTES - 1),
            Kind::NotRead => Ok(()),
        })
    }
}

/// The value of [`Opt::limit`]: 0, a percentage, or bytes, of which there are more than 100.
fn parse_limit(text: &str) -> Option<u64> {
    if text == "auto" {
        return Some(0);
    }
    if let Some(percent) = text.strip_suffix('%') {
        return percent.parse().ok().filter(|percent| (1..=100).contains(percent));
    }
    let suffix = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(suffix);
    let shift = ["", "K", "M", "G", "T"].iter().position(|known| *known == suffix)? * 10;
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (1 << 20..UNSET).contains(&bytes).then_some(bytes)
}

/// Writes a path, and for each `%p` in it the number of the process. False if there is no room.
pub(super) fn expand(mut text: &[u8], path: &mut [u8; PATH_BYTES]) -> bool {
    let mut number = Line::new();
    let _ = write!(number, "{}", process::id());
    let mut rest = &mut path[..];
    while !text.is_empty() {
        let is_number = text.starts_with(b"%p");
        let part = if is_number { number.as_bytes() } else { &text[..1] };
        let Some((room, left)) = rest.split_at_mut_checked(part.len()) else { return false };
        room.copy_from_slice(part);
        rest = left;
        text = &text[1 + usize::from(is_number)..];
    }
    rest.fill(0);
    !rest.is_empty()
}

/// Bytes of a path, with its terminator.
const PATH_BYTES: usize = 4096;

/// Room for a path, as a C string.
#[derive(Debug)]
pub(super) struct PathPlace(UnsafeCell<[u8; PATH_BYTES]>);

impl PathPlace {
    pub(super) const fn new() -> PathPlace {
        PathPlace(UnsafeCell::new([0; PATH_BYTES]))
    }
}

// SAFETY: written by the one thread that reads the environment, before it sets the option, and read
// by those that find it set.
unsafe impl Sync for PathPlace {}
