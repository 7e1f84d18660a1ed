//! What is reported of an error at a trap: some lines on standard error.
//!
//! Async-signal-safe. A thread that faults while another one reports waits for it, for a second at
//! most; then it writes its first line only.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sheaves_sys::fault::Access;
use sheaves_sys::report::{abort, report};
use sheaves_sys::trace::Memory;
use sheaves_sys::{clock, thread};

use super::layout::{Event, FRAMES_MAX, Misuse, Record, State};
use super::table;

/// What a report needs, in a static: a signal handler may have a stack of 8 KiB.
struct Scratch {
    is_taken: AtomicBool,
    parts: UnsafeCell<Parts>,
}

struct Parts {
    records: [Record; 2],
    frames: [usize; FRAMES_MAX],
    tracer: Memory,
}

// SAFETY: the parts are used by the thread that has set `is_taken`.
unsafe impl Sync for Scratch {}

static SCRATCH: Scratch = Scratch {
    is_taken: AtomicBool::new(false),
    parts: UnsafeCell::new(Parts {
        records: [Record::NONE; 2],
        frames: [0; FRAMES_MAX],
        tracer: Memory::new(),
    }),
};

/// How long a thread waits for the scratch memory.
const PATIENCE_MS: u64 = 1000;
const MOMENT_NS: u64 = 100_000;

/// The access that was explained last: its address and the state of its place. The program's own
/// handler may return to an instruction that fails again.
static EXPLAINED: AtomicU64 = AtomicU64::new(0);

/// Explains an access that has failed, if it is one to the pool. In a signal handler.
pub(super) fn explain(access: &Access) {
    let Some(geometry) = table::geometry().filter(|_| table::contains(access.address)) else {
        return;
    };
    let state = geometry.place_of(access.address).map_or(0, table::state);
    let key = state ^ (access.address as u64) << 8 ^ (access.counter as u64).rotate_left(32);
    // Relaxed: if two threads fail at once, there may be a report more.
    if EXPLAINED.swap(key, Ordering::Relaxed) != key {
        write(None, access.address, Some(access));
    }
}

/// Reports an error in a free or the like of an address, and aborts the process.
#[cold]
pub(super) fn die(misuse: Misuse, address: usize) -> ! {
    write(Some(misuse), address, None);
    abort()
}

/// Writes the report about an address, once it is found out what is wrong, unless that is known.
fn write(known: Option<Misuse>, address: usize, access: Option<&Access>) {
    if !take_scratch() {
        return report(format_args!("guard: an error at {address:#x}, while another is reported"));
    }
    // SAFETY: this thread has the scratch memory, and no other reference is alive.
    let Parts { records, frames, tracer } = unsafe { &mut *SCRATCH.parts.get() };
    let geometry = table::geometry();
    let misuse = known.or_else(|| geometry?.explain(address, records, table::read_record));
    if known.is_some() {
        let place = geometry.and_then(|geometry| geometry.place_of(address));
        if !place.is_some_and(|place| table::read_record(place, &mut records[0])) {
            records[0].clone_from(&Record::NONE);
        }
    }
    match misuse {
        None => report(format_args!(
            "guard: access to {address:#x}, in the pool of guarded blocks, where no block has been"
        )),
        Some(misuse) => {
            table::note_error(misuse, address);
            let count = access.map_or(0, |access| tracer.follow(access, frames));
            write_parts(misuse, address, &records[0], access, &frames[..count], tracer);
        }
    }
    // Release pairs with the Acquire in `take_scratch`.
    SCRATCH.is_taken.store(false, Ordering::Release);
}

fn take_scratch() -> bool {
    let end = clock::coarse_ms() + PATIENCE_MS;
    // Acquire pairs with the Release in `write`.
    while SCRATCH.is_taken.swap(true, Ordering::Acquire) {
        if clock::coarse_ms() > end {
            return false;
        }
        thread::sleep_ns(MOMENT_NS);
    }
    true
}

fn write_parts(
    misuse: Misuse,
    address: usize,
    record: &Record,
    access: Option<&Access>,
    frames: &[usize],
    tracer: &mut Memory,
) {
    let (now, id) = (clock::coarse_ms(), thread::id());
    let mut room = [0; 32];
    let name = record.name(&mut room);
    let (position, block, bytes) = (record.position(address), record.address(), record.bytes());
    let call = fmt::from_fn(|f| match access.map(|access| access.is_write) {
        Some(Some(true)) => write!(f, "write to {address:#x}, "),
        Some(Some(false)) => write!(f, "read of {address:#x}, "),
        Some(None) => write!(f, "access to {address:#x}, "),
        None => write!(f, "{address:#x}, "),
    });
    report(format_args!(
        "guard: {}: {call}{} a block of {bytes} bytes at {block:#x} ({name}), by thread {id}",
        misuse.name(),
        where_in(misuse, position),
    ));
    if access.is_some() {
        tracer.report("guard:   ", frames.iter().copied(), true);
    }
    write_section(misuse, now.saturating_sub(record.deferral().ms()));
    write_event("allocated", record.alloc(), now, tracer);
    write_event("deferred", record.deferral(), now, tracer);
    if State::of(record.state) == State::Freed || misuse == Misuse::Damaged {
        let how = if record.deferral().is_there() && record.free().frames().len() == 0 {
            "its grace period was over"
        } else {
            "freed"
        };
        write_event(how, record.free(), now, tracer);
    }
}

fn where_in(misuse: Misuse, position: impl fmt::Display) -> impl fmt::Display {
    fmt::from_fn(move |f| match misuse {
        Misuse::DoubleFree | Misuse::FreeOfDeferred | Misuse::Damaged | Misuse::OtherCache => {
            f.write_str("the start of")
        }
        _ => write!(f, "{position}"),
    })
}

/// Writes whether the thread is in a read section: where it is, or where that is the error.
/// The block was deferred `deferred_ms` ago.
fn write_section(misuse: Misuse, deferred_ms: u64) {
    let is_late = misuse == Misuse::LateReader;
    match sheaves_rcu::internal::section() {
        Some(section) => {
            let least = section.age_ns_min / 1_000_000;
            let most = section.age_ns_max.map(|ns| ns / 1_000_000);
            // A section that was open at the deferral would have delayed the grace period.
            let most = if is_late { Some(deferred_ms.min(most.unwrap_or(u64::MAX))) } else { most };
            let since = fmt::from_fn(|f| match most {
                Some(most) => write!(f, "{} to {most} ms ago", least.min(most)),
                None => f.write_str("at a time that is not known"),
            });
            let after = if is_late { ", after the block was deferred" } else { "" };
            report(format_args!(
                "guard: the thread is in an RCU read section that began {since}{after}"
            ));
        }
        None if is_late => {
            report(format_args!("guard: the thread is in no RCU read section"));
        }
        None => {}
    }
}

fn write_event(how: &str, event: Event<'_>, now: u64, tracer: &mut Memory) {
    if !event.is_there() {
        return;
    }
    let (thread, age) = (event.thread(), now.saturating_sub(event.ms()));
    let at = if event.frames().len() == 0 { "; the caller is not known" } else { " at" };
    report(format_args!("guard: {how} {age} ms ago by thread {thread}{at}"));
    tracer.report("guard:   ", event.frames(), false);
}
