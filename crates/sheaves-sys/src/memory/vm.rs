//! What the kernel's memory management does: when it uses huge pages, and how many mappings a
//! process may have. For what gives advice to mappings or splits them.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::errno::preserve;
use crate::process;

/// How many mappings a process may have, unless `vm.max_map_count` says otherwise. What the library
/// takes is a share of this one: the file would cost the start of each program 14 us (Zen 4).
pub const MAPPINGS_MAX: usize = 65_530;

/// When the kernel uses huge pages for private memory: by default, or where a mapping has asked for
/// them; both if it does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePages(u8);

impl HugePages {
    /// Not at all.
    pub const NEVER: HugePages = HugePages(4);
    const DEFAULT: u8 = 1;
    const ON_REQUEST: u8 = 2;

    /// The setting that is in brackets in the kernel's file: known by what follows the bracket.
    #[unsafe(link_section = ".text.sheaves_load")]
    fn of_text(text: &[u8]) -> HugePages {
        let bracket = text.iter().position(|byte| *byte == b'[').unwrap_or(text.len());
        match text[bracket..] {
            [_, b'a', b'l', ..] => HugePages(HugePages::DEFAULT),
            [_, b'm', b'a', ..] => HugePages(HugePages::ON_REQUEST),
            [_, b'n', b'e', ..] => HugePages::NEVER,
            _ => HugePages(HugePages::DEFAULT | HugePages::ON_REQUEST),
        }
    }

    /// True when memory without advice may get them.
    pub fn are_default(self) -> bool {
        self.0 & HugePages::DEFAULT != 0
    }

    /// True when memory may have to ask for them.
    pub fn are_on_request(self) -> bool {
        self.0 & HugePages::ON_REQUEST != 0
    }
}

/// When the kernel uses huge pages. Read when the object is loaded: later a sandbox may forbid to
/// open files.
#[unsafe(link_section = ".text.sheaves_load")]
pub fn huge_pages() -> HugePages {
    /// 0 until it is read.
    #[unsafe(link_section = ".sheaves_load")]
    static HUGE_PAGES: AtomicU8 = AtomicU8::new(0);
    // Relaxed: a number that stays the same, and leads to nothing.
    let known = HUGE_PAGES.load(Ordering::Relaxed);
    if known != 0 {
        return HugePages(known);
    }
    let mut text = [0; 64];
    let path = c"/sys/kernel/mm/transparent_hugepage/enabled";
    let used = preserve(|| process::read_file(path, &mut text)).unwrap_or(0);
    let setting = HugePages::of_text(&text[..used]);
    // Relaxed: as above.
    HUGE_PAGES.store(setting.0, Ordering::Relaxed);
    setting
}

crate::run_when_loaded!(_ = huge_pages());

#[cfg(test)]
#[path = "../../tests/unit/vm.rs"]
mod tests;
