//! Settings of the kernel's memory management: when it uses huge pages, and how many mappings a
//! process may have. Used where mappings get advice or are split.
//!
//! They are read once, when the object is loaded: later a sandbox may forbid to open files.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::errno::preserve;
use crate::process;

/// What the kernel allows unless it was told otherwise.
const MAPPINGS_DEFAULT: usize = 65_530;

/// When the kernel uses huge pages for private memory: by default, or where a mapping has asked for
/// them; both if it does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePages(u8);

impl HugePages {
    /// Not at all.
    pub const NEVER: HugePages = HugePages(4);
    const DEFAULT: u8 = 1;
    const ON_REQUEST: u8 = 2;

    /// The setting that is in brackets in the kernel's file.
    fn of_text(text: &str) -> HugePages {
        let is_set = |word| text.split_whitespace().any(|other| other == word);
        match () {
            () if is_set("[always]") => HugePages(HugePages::DEFAULT),
            () if is_set("[madvise]") => HugePages(HugePages::ON_REQUEST),
            () if is_set("[never]") => HugePages::NEVER,
            () => HugePages(HugePages::DEFAULT | HugePages::ON_REQUEST),
        }
    }

    /// True when memory without advice may get them.
    #[must_use]
    pub fn are_default(self) -> bool {
        self.0 & HugePages::DEFAULT != 0
    }

    /// True when memory may have to ask for them.
    #[must_use]
    pub fn are_on_request(self) -> bool {
        self.0 & HugePages::ON_REQUEST != 0
    }
}

/// 0 until it is read.
#[unsafe(link_section = ".sheaves_load")]
static HUGE_PAGES: AtomicU8 = AtomicU8::new(0);
/// Likewise.
#[unsafe(link_section = ".sheaves_load")]
static MAPPINGS_MAX: AtomicUsize = AtomicUsize::new(0);

/// When the kernel uses huge pages.
#[must_use]
#[unsafe(link_section = ".text.sheaves_load")]
pub fn huge_pages() -> HugePages {
    // Relaxed: a number that stays the same, and leads to nothing.
    let known = HUGE_PAGES.load(Ordering::Relaxed);
    if known != 0 {
        return HugePages(known);
    }
    let mut text = [0; 64];
    let path = c"/sys/kernel/mm/transparent_hugepage/enabled";
    let setting = HugePages::of_text(read(path, &mut text).unwrap_or_default());
    // Relaxed: as above.
    HUGE_PAGES.store(setting.0, Ordering::Relaxed);
    setting
}

/// The most mappings that a process may have.
#[must_use]
#[unsafe(link_section = ".text.sheaves_load")]
pub fn mappings_max() -> usize {
    // Relaxed: as above.
    let known = MAPPINGS_MAX.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut text = [0; 64];
    let text = read(c"/proc/sys/vm/max_map_count", &mut text).unwrap_or_default();
    let number = text.trim_end().parse().unwrap_or(MAPPINGS_DEFAULT).max(1);
    // Relaxed: as above.
    MAPPINGS_MAX.store(number, Ordering::Relaxed);
    number
}

fn read<'a>(path: &CStr, text: &'a mut [u8]) -> Option<&'a str> {
    let used = preserve(|| process::read_file(path, text))?;
    core::str::from_utf8(&text[..used]).ok()
}

crate::run_when_loaded!((huge_pages(), mappings_max()));

#[cfg(test)]
#[path = "../../tests/unit/vm.rs"]
mod tests;
