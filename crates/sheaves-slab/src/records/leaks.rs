//! What was allocated and not freed, when a process in debug mode ends: by the places that
//! allocated it, those with the most bytes first.
//!
//! What libc, the loader and the C++ runtime allocated for themselves, or for a caller that is not
//! known, is left out: they free little of it at the end.

use sheaves_sys::report;
use sheaves_sys::symbol::{self, Addresses};

use crate::records::profile::{self, FRAMES_MAX, Kind, Site, chance};

/// Places that are reported.
const PLACES: usize = 10;
/// Return addresses of a place that are reported.
const CALLERS: usize = 6;

/// A place and its bytes.
#[derive(Clone, Copy)]
struct Leak {
    index: usize,
    bytes: u64,
}

/// Prints the report to a file descriptor; nothing if there is no leak.
pub fn report_to(fd: i32) {
    let session = profile::head().session;
    let mut largest = [Leak { index: 0, bytes: 0 }; PLACES];
    let (mut places, mut blocks, mut bytes) = (0, 0, 0);
    each_place(session, |index, site| {
        (places, blocks) = (places + 1, blocks + site.live.samples);
        let leak = Leak { index, bytes: bytes_of(site) };
        bytes += leak.bytes;
        let rank = largest.iter().position(|other| other.bytes < leak.bytes);
        if let Some(rank) = rank {
            largest[rank..].rotate_right(1);
            largest[rank] = leak;
        }
    });
    if places == 0 {
        return;
    }
    report::report_to(
        fd,
        format_args!(
            "not freed at the end: {bytes} bytes in {blocks} blocks, call sites: {places}"
        ),
    );
    for leak in largest.iter().filter(|leak| leak.bytes != 0) {
        let mut addresses = [0; FRAMES_MAX];
        if let Some((_, site)) = profile::next_site(session, leak.index, &mut addresses) {
            let callers = Addresses(&addresses[..site.addresses().min(CALLERS)]);
            let (bytes, blocks) = (bytes_of(&site), site.live.samples);
            let of = match site.kind {
                Kind::Malloc | Kind::Large => "malloc",
                Kind::Cache | Kind::PerCpu => site.name.as_str(),
            };
            report::report_to(
                fd,
                format_args!("{bytes} bytes in {blocks} blocks of {of}, allocated by {callers}"),
            );
        }
    }
}

fn bytes_of(site: &Site) -> u64 {
    (site.live.bytes + chance::WEIGHT_ONE / 2) / chance::WEIGHT_ONE
}

/// Calls `visit` with the places of the program that have live blocks.
fn each_place(session: u64, mut visit: impl FnMut(usize, &Site)) {
    let (mut addresses, mut next) = ([0; FRAMES_MAX], 0);
    while let Some((index, site)) = profile::next_site(session, next, &mut addresses) {
        let addresses = &addresses[..site.addresses()];
        let is_live = site.live.samples != 0 && !site.is_deferral;
        if is_live && addresses.first().is_some_and(|leaf| !symbol::is_in_runtime(*leaf)) {
            visit(index, &site);
        }
        next = index + 1;
    }
}
