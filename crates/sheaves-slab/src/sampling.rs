//! Profiling of the heap, as programs use it: on, off, and the text of a dump.
//!
//! A dump is lines of text. The words of a line are separated by one space each:
//!
//! ```text
//! sheaves heap profile 1
//! rate_bytes RATE          mean bytes from one sample to the next
//! is_on 0|1                1 while new samples are taken
//! since_ms TIME            when profiling was turned on, in ms since 1970
//! until_ms TIME            now
//! dropped COUNT            samples without a record, because memory or the room for sites was out
//! stacks STATE             of code without frame pointers: `whole`, or why they are short
//! site STATE KIND NAME SAMPLES OBJECTS BYTES ALL_OBJECTS ALL_BYTES ADDRESS...
//! end
//! ```
//!
//! A `site` is a place in the program. `STATE` is `live`, or `deferred`: then the objects wait for
//! a grace period, and the place is that of `free_rcu`. `KIND` is `malloc`, `cache`, `large` or
//! `percpu`, and `NAME` the cache's, with `_` for what is not a printable ASCII character.
//! `SAMPLES` are the samples that are live or deferred, `OBJECTS` and `BYTES` the estimate of all
//! such objects, and the last two numbers the estimate of all that ever were since profiling was
//! turned on. The addresses are return addresses in hexadecimal digits, the innermost first.

use core::fmt::{self, Write};

use sheaves_sys::clock;
use sheaves_sys::unwind::{self, Unwinder};

use crate::deferred;
use crate::moves::release;
use crate::records::profile::{self, Kind, Listed, chance};
use crate::records::trap;
use crate::returning::tick;
use crate::space::{checking, chunk};

pub use crate::moves::tags::note_frees_by_layout;
pub use crate::records::profile::{
    AllocRequest, RATE_BYTES, RATE_BYTES_MAX, RATE_BYTES_MIN, close, defer, large, on_switch, rate,
    resize, was_on,
};

/// Takes samples of allocations from now on, on average one in `rate` bytes, from
/// [`RATE_BYTES_MIN`] to [`RATE_BYTES_MAX`]. Forgets earlier samples. False when memory is out.
///
/// Costs nothing until then: see `moves/tags.rs`. Interrupts the CPUs that run this process, some
/// hundred times.
///
/// In debug mode each allocation is a sample already, and stays one.
pub fn start(rate: usize) -> bool {
    if checking::is_debug() {
        return true;
    }
    let is_started = profile::begin(rate);
    if is_started {
        profile::large::observe_percpu();
        empty_slots();
    }
    is_started
}

/// Takes no new samples. Those that there are stay in dumps, until they are freed.
pub fn stop() {
    if !checking::is_debug() {
        profile::end();
    }
}

/// Guards one in `one_in` samples from now on: see [`trap`]. While the profile is off,
/// there are samples as if it were on at [`RATE_BYTES`]. False in a hardened process, when memory
/// has run out, or where the kernel refuses the handler of SIGSEGV. Costs what [`start`] does.
pub fn start_traps(one_in: usize) -> bool {
    let is_on = trap::set(one_in.max(1));
    if is_on {
        empty_slots();
    }
    is_on
}

/// Guards no further samples. Those that there are stay guarded until they are freed.
pub fn stop_traps() {
    let is_off = trap::set(0);
    debug_assert!(is_off, "turning off asks for nothing");
}

/// Takes the sheaves out of all slots: those that objects are allocated from after that have tags,
/// and samples that were freed without a note have no record any more. Where a slot is not reached,
/// what its spare words have is allocated without a draw.
fn empty_slots() {
    tick::flush_slots();
    release::arm_reclaimer_if_pending();
    chunk::do_due_after_free();
}

/// Writes a dump. May sleep on locks for microseconds; `out` is called without one. Interrupts the
/// CPUs that run this process, as [`start`].
///
/// # Errors
/// Those of `out`.
pub fn dump(out: &mut impl Write) -> fmt::Result {
    if profile::open_records() != 0 {
        empty_slots();
        deferred::seal_all();
    }
    let head = profile::head();
    writeln!(out, "sheaves heap profile 1\nrate_bytes {}", head.rate)?;
    writeln!(out, "is_on {}\nsince_ms {}", u8::from(rate() != 0), head.since_ms)?;
    writeln!(out, "until_ms {}\ndropped {}", clock::wall_ms(), head.dropped)?;
    let stacks = match unwind::state() {
        Unwinder::Found => "whole",
        Unwinder::NotFound => "not-sought",
        Unwinder::OldGlibc => "old-glibc",
        Unwinder::NoLibgcc => "no-libgcc",
        Unwinder::OldLibgcc => "old-libgcc",
    };
    writeln!(out, "stacks {stacks}")?;
    profile::sites(head.session, 0).try_for_each(|listed| write_site(out, &listed))?;
    writeln!(out, "end")
}

fn write_site(out: &mut impl Write, listed: &Listed) -> fmt::Result {
    let site = &listed.site;
    let state = if site.source.is_deferral { "deferred" } else { "live" };
    let kind = match site.source.kind {
        Kind::Malloc => "malloc",
        Kind::Cache => "cache",
        Kind::Large => "large",
        Kind::PerCpu => "percpu",
    };
    write!(out, "site {state} {kind} ")?;
    let name = site.source.name.as_str();
    for letter in if name.is_empty() { "_" } else { name }.chars() {
        out.write_char(if letter.is_ascii_graphic() { letter } else { '_' })?;
    }
    write!(out, " {}", site.live.samples)?;
    for weights in [site.live.objects, site.live.bytes, site.all.objects, site.all.bytes] {
        write!(out, " {}", chance::whole(weights))?;
    }
    for address in listed.addresses() {
        write!(out, " {address:x}")?;
    }
    writeln!(out)
}
