//! A profile whose sites have functions instead of addresses.

use std::collections::HashMap;

use super::dump::{Dump, Site};
use super::symbols::{Frame, Symbols};
use crate::output::bytes;

/// A profile.
pub(crate) struct Profile {
    /// What it is of: a process, or a file.
    pub(crate) source: String,
    pub(crate) dump: Dump,
    pub(crate) symbols: Symbols,
    frames: HashMap<u64, Vec<Frame>>,
}

impl Profile {
    /// Looks up all addresses of a dump.
    pub(crate) fn of(dump: Dump, mut symbols: Symbols, source: String) -> Profile {
        let mut frames = HashMap::new();
        for address in dump.sites.iter().flat_map(|site| &site.addresses) {
            frames.entry(*address).or_insert_with(|| symbols.frames(*address));
        }
        Profile { source, dump, symbols, frames }
    }

    /// The functions at a return address, the innermost inlined one first.
    pub(crate) fn frames_at(&self, address: u64) -> &[Frame] {
        self.frames.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The functions on the stack of a site, the innermost first.
    pub(crate) fn stack<'a>(
        &'a self,
        site: &'a Site,
    ) -> impl DoubleEndedIterator<Item = &'a Frame> {
        site.addresses.iter().flat_map(|address| self.frames_at(*address))
    }

    /// What it is of, and how much is in use.
    pub(crate) fn head(&self) -> String {
        format!("{}: {} in use", self.source, bytes(self.total_bytes()))
    }

    /// What the figures are made of; empty if it has never had a sample.
    pub(crate) fn about(&self) -> String {
        let Dump { rate_bytes, since_ms, until_ms, .. } = self.dump;
        let seconds = until_ms.saturating_sub(since_ms) / 1000;
        match rate_bytes {
            0 => String::new(),
            _ => format!("estimated by one sample in {}, over {seconds} s", bytes(rate_bytes)),
        }
    }

    /// The sum of what is live, and of what is deferred.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.dump.sites.iter().fold(0, |sum, site| sum.saturating_add(site.bytes))
    }
}

/// What is at a site, for a reader.
pub(crate) fn what(site: &Site) -> String {
    let cache = match site.kind.as_str() {
        "cache" => format!("cache {}", site.cache),
        _ => site.cache.clone(),
    };
    if site.is_deferred { format!("{cache}, deferred") } else { cache }
}
