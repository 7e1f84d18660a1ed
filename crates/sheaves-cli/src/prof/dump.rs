//! The text of a dump, see `sheaves_slab::internal::sampling`, and the mappings after it, which end
//! like the dump, so that a file is known to be whole.
//!
//! It may come from any process or file, so what it has is limited.

use core::fmt;

use crate::output;

/// Sites, and addresses of one.
const SITES_MAX: usize = 1 << 17;
const ADDRESSES_MAX: usize = 256;

/// What a dump says.
#[derive(Debug, PartialEq)]
pub(crate) struct Dump {
    /// The process, where this command has written the dump.
    pub(crate) process: Option<String>,
    pub(crate) rate_bytes: u64,
    /// When profiling was turned on; 0 if it never was.
    pub(crate) since_ms: u64,
    pub(crate) until_ms: u64,
    pub(crate) dropped: u64,
    /// Why stacks of code without frame pointers are short; empty where they are whole.
    pub(crate) short: &'static str,
    pub(crate) sites: Vec<Site>,
    pub(crate) mappings: Vec<Mapping>,
}

/// A place in the program, with estimates of what was allocated there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Site {
    pub(crate) is_deferred: bool,
    pub(crate) kind: String,
    pub(crate) cache: String,
    pub(crate) samples: u64,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) all_objects: u64,
    pub(crate) all_bytes: u64,
    /// Return addresses, the innermost first.
    pub(crate) addresses: Vec<u64>,
}

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) path: String,
}

const FIRST: &str = "sheaves heap profile ";

impl Dump {
    /// Reads a dump, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Dump, String> {
        let mut lines = text.lines();
        match lines.next().and_then(|line| line.strip_prefix(FIRST)) {
            Some("1") => {}
            Some(other) => return Err(format!("its version is {other:.20}, not 1")),
            None => return Err("its first line is another one".to_owned()),
        }
        let mut dump = Dump {
            process: None,
            rate_bytes: 0,
            since_ms: 0,
            until_ms: 0,
            dropped: 0,
            short: "",
            sites: Vec::new(),
            mappings: Vec::new(),
        };
        let wrong = |line: &str| format!("it has the line {line:.60?}");
        loop {
            match lines.next() {
                None => return Err("its end is missing".to_owned()),
                Some("end") => break,
                Some(line) => dump.read(line).ok_or_else(|| wrong(line))?,
            }
        }
        if !text.ends_with('\n') {
            return Err("its last line is cut short".to_owned());
        }
        if lines.next() == Some("maps") {
            let mut is_whole = true;
            for line in lines {
                is_whole = line == "end";
                if !is_whole {
                    range(line).ok_or_else(|| wrong(line))?;
                    dump.mappings.extend(mapping(line));
                }
            }
            if !is_whole {
                return Err("the end of its mappings is missing".to_owned());
            }
        }
        Ok(dump)
    }

    /// What two heaps of a process have, as one. Their estimates do not depend on their rates.
    pub(crate) fn join(mut self, other: Dump) -> Dump {
        self.since_ms = self.since_ms.min(other.since_ms);
        self.until_ms = self.until_ms.max(other.until_ms);
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.short = if self.short.is_empty() { other.short } else { self.short };
        self.sites.extend(other.sites);
        self
    }

    fn read(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "process" => self.process = Some(output::name(rest.as_bytes())),
            "rate_bytes" => self.rate_bytes = rest.parse().ok()?,
            "since_ms" => self.since_ms = rest.parse().ok()?,
            "until_ms" => self.until_ms = rest.parse().ok()?,
            "dropped" => self.dropped = rest.parse().ok()?,
            "stacks" => {
                let known = SHORT.iter().find(|(word, _)| *word == rest);
                self.short = known.map_or("", |(_, why)| why);
            }
            "site" if self.sites.len() < SITES_MAX => self.sites.push(site(rest)?),
            "site" => return None,
            // Lines of later versions that change nothing.
            _ => {}
        }
        Some(())
    }
}

/// Why stacks are short, by the word of a dump.
const SHORT: [(&str, &str); 4] = [
    ("not-sought", "libgcc was not loaded: the library has no thread, or is in a sandbox"),
    ("old-glibc", "the C library is not glibc 2.35 or later, or is linked statically"),
    ("no-libgcc", "libgcc_s.so.1 cannot be loaded"),
    ("old-libgcc", "libgcc_s.so.1 is older than that of gcc 12, or built for an older glibc"),
];

impl fmt::Display for Dump {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{FIRST}1")?;
        if let Some(process) = &self.process {
            writeln!(out, "process {process}")?;
        }
        let Dump { rate_bytes, since_ms, until_ms, dropped, .. } = self;
        writeln!(out, "rate_bytes {rate_bytes}\nsince_ms {since_ms}\nuntil_ms {until_ms}")?;
        writeln!(out, "dropped {dropped}")?;
        if let Some((word, _)) = SHORT.iter().find(|(_, why)| *why == self.short) {
            writeln!(out, "stacks {word}")?;
        }
        for site in &self.sites {
            let state = if site.is_deferred { "deferred" } else { "live" };
            write!(out, "site {state} {} {} {}", site.kind, site.cache, site.samples)?;
            let Site { objects, bytes, all_objects, all_bytes, .. } = site;
            write!(out, " {objects} {bytes} {all_objects} {all_bytes}")?;
            site.addresses.iter().try_for_each(|address| write!(out, " {address:x}"))?;
            writeln!(out)?;
        }
        writeln!(out, "end\nmaps")?;
        for Mapping { start, end, offset, path } in &self.mappings {
            // The file and its rights play no part.
            writeln!(out, "{start:x}-{end:x} r-xp {offset:x} 00:00 0 {path}")?;
        }
        writeln!(out, "end")
    }
}

fn site(line: &str) -> Option<Site> {
    let mut words = line.split(' ');
    let is_deferred = match words.next()? {
        "live" => false,
        "deferred" => true,
        _ => return None,
    };
    let mut name = || words.next().map(|word| output::name(word.as_bytes()));
    let (kind, cache) = (name()?, name()?);
    let mut number = || words.next()?.parse::<u64>().ok();
    let [samples, objects, bytes, all_objects, all_bytes] =
        [number()?, number()?, number()?, number()?, number()?];
    let addresses = words.map(|word| u64::from_str_radix(word, 16).ok());
    let addresses = addresses.collect::<Option<Vec<_>>>().filter(|it| it.len() <= ADDRESSES_MAX)?;
    Some(Site {
        is_deferred,
        kind,
        cache,
        samples,
        objects,
        bytes,
        all_objects,
        all_bytes,
        addresses,
    })
}

/// A mapping of a file; `None` for any other line.
pub(crate) fn mapping(line: &str) -> Option<Mapping> {
    let (start, end, offset) = range(line)?;
    let path = line.find(" /").map(|place| line[place + 1..].to_owned())?;
    Some(Mapping { start, end, offset, path })
}

/// The addresses of a mapping, and the offset in its file.
fn range(line: &str) -> Option<(u64, u64, u64)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    let (_rights, offset) = (words.next()?, hexadecimal(words.next()?)?);
    let (_device, _inode) = (words.next()?, words.next()?);
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    (start <= end).then_some((start, end, offset))
}

#[cfg(test)]
#[path = "../../tests/unit/prof_dump.rs"]
mod tests;
