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

/// When the kernel uses huge pages for private memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum HugePages {
    /// It does not tell.
    Unknown = 1,
    /// Unless a mapping has asked for none.
    Always,
    /// If a mapping has asked for them.
    OnRequest,
    /// Not at all.
    Never,
}

impl HugePages {
    const ALL: [HugePages; 4] =
        [HugePages::Unknown, HugePages::Always, HugePages::OnRequest, HugePages::Never];

    /// The setting that is in brackets in the kernel's file.
    fn of_text(text: &str) -> HugePages {
        let is_set = |word| text.split_whitespace().any(|other| other == word);
        match () {
            () if is_set("[always]") => HugePages::Always,
            () if is_set("[madvise]") => HugePages::OnRequest,
            () if is_set("[never]") => HugePages::Never,
            () => HugePages::Unknown,
        }
    }

    /// True when memory without advice may get them.
    #[must_use]
    pub fn are_default(self) -> bool {
        matches!(self, HugePages::Unknown | HugePages::Always)
    }

    /// True when memory may have to ask for them.
    #[must_use]
    pub fn are_on_request(self) -> bool {
        matches!(self, HugePages::Unknown | HugePages::OnRequest)
    }
}

/// 0 until it is read.
static HUGE_PAGES: AtomicU8 = AtomicU8::new(0);
/// Likewise.
static MAPPINGS_MAX: AtomicUsize = AtomicUsize::new(0);

/// When the kernel uses huge pages.
#[must_use]
pub fn huge_pages() -> HugePages {
    // Relaxed: a number that stays the same, and leads to nothing.
    let known = HUGE_PAGES.load(Ordering::Relaxed);
    if let Some(setting) = HugePages::ALL.into_iter().find(|setting| *setting as u8 == known) {
        return setting;
    }
    let mut text = [0; 64];
    let path = c"/sys/kernel/mm/transparent_hugepage/enabled";
    let setting = HugePages::of_text(read(path, &mut text).unwrap_or_default());
    // Relaxed: as above.
    HUGE_PAGES.store(setting as u8, Ordering::Relaxed);
    setting
}

/// The most mappings that a process may have.
#[must_use]
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
