//! A profile whose sites have functions instead of addresses.

use std::collections::HashMap;

use super::dump::{Dump, Site};
use super::symbols::{Frame, Symbols};

/// A profile.
pub(crate) struct Profile {
    pub(crate) dump: Dump,
    pub(crate) symbols: Symbols,
    frames: HashMap<u64, Vec<Frame>>,
}

impl Profile {
    /// Looks up all addresses of a dump.
    pub(crate) fn of(dump: Dump, mut symbols: Symbols) -> Profile {
        let mut frames = HashMap::new();
        for address in dump.sites.iter().flat_map(|site| &site.addresses) {
            frames.entry(*address).or_insert_with(|| symbols.frames(*address));
        }
        Profile { dump, symbols, frames }
    }

    /// The functions at a return address, the innermost inlined one first.
    pub(crate) fn frames_at(&self, address: u64) -> &[Frame] {
        self.frames.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The functions on the stack of a site, the innermost first.
    pub(crate) fn stack<'a>(&'a self, site: &'a Site) -> impl Iterator<Item = &'a Frame> {
        site.addresses.iter().flat_map(|address| self.frames_at(*address))
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
