//! What was allocated and not freed, when a process in debug mode ends: by the places that
//! allocated it, those with the most bytes first.
//!
//! What libc, the loader and the C++ runtime allocated for themselves, or for a caller that is not
//! known, is left out: they free little of it at the end.

use sheaves_sys::report;
use sheaves_sys::symbol::{self, Addresses};

use crate::records::profile::{self, Kind, Listed, chance};

/// Places that are reported.
const PLACES: usize = 10;
/// Return addresses of a place that are reported.
const CALLERS: usize = 6;

/// Prints the report to a file descriptor; nothing if there is no leak.
pub fn report_to(fd: i32) {
    let session = profile::head().session;
    // Bytes and index of each.
    let mut largest = [(0, 0); PLACES];
    let (mut places, mut blocks, mut bytes) = (0, 0, 0);
    for place in profile::sites(session, 0).filter(is_leak) {
        let leak = (chance::whole(place.site.live.bytes), place.index);
        (places, blocks, bytes) = (places + 1, blocks + place.site.live.samples, bytes + leak.0);
        if let Some(rank) = largest.iter().position(|other| other.0 < leak.0) {
            largest[rank..].rotate_right(1);
            largest[rank] = leak;
        }
    }
    if places == 0 {
        return;
    }
    let text = format_args!(
        "not freed at the end: {bytes} bytes in {blocks} blocks, call sites: {places}"
    );
    report::report_to(fd, text);
    for (_, index) in largest.iter().filter(|(bytes, _)| *bytes != 0) {
        let Some(place) = profile::sites(session, *index).next() else { return };
        let addresses = place.addresses();
        let callers = Addresses(&addresses[..addresses.len().min(CALLERS)]);
        let live = place.site.live;
        let (bytes, blocks) = (chance::whole(live.bytes), live.samples);
        let of = match place.site.source.kind {
            Kind::Malloc | Kind::Large => "malloc",
            Kind::Cache | Kind::PerCpu => place.site.source.name.as_str(),
        };
        let text = format_args!("{bytes} bytes in {blocks} blocks of {of}, allocated by {callers}");
        report::report_to(fd, text);
    }
}

/// True for a place of the program that has live blocks.
fn is_leak(place: &Listed) -> bool {
    let is_live = place.site.live.samples != 0 && !place.site.source.is_deferral;
    is_live && place.addresses().first().is_some_and(|leaf| !symbol::is_in_runtime(*leaf))
}
