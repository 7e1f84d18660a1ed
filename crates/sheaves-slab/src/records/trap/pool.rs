//! Allocation and free of traps, under no lock.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::stack::{self, Frame};
use sheaves_sys::{clock, fault, map, options};

use super::layout::{
    ADDRESS, ALLOC, BYTES, CACHE, DEFERRAL, FRAMES_MAX, FREE, Geometry, Misuse, NAME, OBJECT, State,
};
use super::table::{self, change, field, geometry, set_field};
use super::{report, table::contains};
use crate::parts::shape::Shape;
use crate::records::profile::{self, AllocRequest, chance};
use crate::space::cache_id::CacheId;
use crate::space::{checking, chunk};

/// One in this many samples is a trap; 0 while there are no new ones.
static ONE_IN: AtomicUsize = AtomicUsize::new(0);
/// The most of them.
pub const ONE_IN_MAX: usize = options::GUARD_ONE_IN_MAX as usize;

/// Blocks that are allocated or deferred.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// A place rests for this long after a free. It bounds what a program costs that allocates much:
/// 256 blocks in this time; further samples are none.
const REST_MS: u64 = 640;
/// The same where all samples are to be traps.
const REST_MS_ALL: u64 = 10;

/// Bytes around a block that are checked when it is freed: as many before it and behind it, where
/// these are of the place.
const ZONE_BYTES: usize = 64;
const ZONE: u8 = 0xa5;

/// One in how many samples is a trap; 0 while there are no new ones.
#[must_use]
pub fn one_in() -> usize {
    // Relaxed: a thread that reads an old value makes a sample more or less.
    ONE_IN.load(Ordering::Relaxed)
}

/// Turns guard samples on or off, and has tags made for them while the heap is not profiled. False
/// in a hardened process, whose objects are checked by other means, when memory has run out, and
/// where the kernel refuses the handler of SIGSEGV.
pub(crate) fn set(one_in: usize) -> bool {
    let make = || {
        // One thread at a time makes the pool.
        let _profile = profile::PROFILE.lock();
        table::make()
    };
    if one_in != 0 && (checking::is_hardened() || !make() || !fault::install(report::explain)) {
        return false;
    }
    // Relaxed: see `one_in`.
    ONE_IN.store(one_in.min(ONE_IN_MAX), Ordering::Relaxed);
    profile::set_trap_rate(profile::RATE_BYTES.saturating_mul(one_in));
    true
}

/// Turns guard samples on if `SHEAVES_GUARD` asks for them.
pub(crate) fn start_option() {
    match options::GUARD.get() as usize {
        0 => {}
        one_in => _ = set(one_in),
    }
}

/// True while there are blocks in the pool. Exact for the caller's own blocks.
pub(crate) fn is_live() -> bool {
    // Relaxed: the caller has got its block by a path that is ordered after the allocation.
    LIVE.load(Ordering::Relaxed) != 0
}

/// A trap of `bytes` instead of an object of a cache, which the caller owns. `None`, with
/// nothing changed, for most samples, and where it cannot be.
pub(crate) fn alloc(
    id: CacheId,
    object: usize,
    bytes: usize,
    request: &AllocRequest,
) -> Option<usize> {
    let (one_in, shape) = (one_in(), id.shape());
    // While there is no profile, tags are rarer by this factor instead.
    let is_chosen = one_in == 1
        || one_in != 0 && (profile::rate() == 0 || chance::happens(1.0 / one_in as f64));
    let geometry = geometry().filter(|_| is_chosen)?;
    let align = if request.align == 0 { natural_align(shape) } else { request.align };
    // Debug caches check their objects by other means.
    let has_contents = shape.constructor.is_some() || shape.typesafe || !shape.is_plain();
    if bytes > geometry.body || align > geometry.page || has_contents {
        return None;
    }
    request_handler_check();
    let (place, before) = table::take_oldest(if one_in == 1 { REST_MS_ALL } else { REST_MS })?;
    let start = geometry.place(place);
    // SAFETY: the pages of a place that this thread owns.
    if !unsafe { map::commit(start, geometry.body) } {
        table::undo(place, before);
        return None;
    }
    let room = geometry.body - bytes;
    let address = if chance::happens(0.5) { start } else { start + room / align * align };
    set_field(place, ADDRESS, address as u64);
    set_field(place, BYTES, bytes as u64);
    set_field(place, OBJECT, object as u64);
    set_field(place, CACHE, u64::from(id.number()));
    let name = shape.name.as_str().as_bytes().chunks(8).chain([&[][..]; 4]);
    for (index, part) in name.take(4).enumerate() {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        set_field(place, NAME + index, u64::from_le_bytes(word));
    }
    write_event(place, ALLOC, request.frame);
    table::clear_event(place, DEFERRAL);
    table::clear_event(place, FREE);
    for zone in zones(geometry, place) {
        zone.fill(ZONE);
    }
    // Relaxed: see `is_live`.
    LIVE.fetch_add(1, Ordering::Relaxed);
    finish(place, State::Allocated);
    Some(address)
}

/// Now and then, has the library's thread look whether the program has installed a handler of its
/// own for accesses that fail.
fn request_handler_check() {
    const INTERVAL_MS: u64 = 1000;
    static REQUESTED_MS: AtomicU64 = AtomicU64::new(0);
    let now_ms = clock::coarse_ms();
    // Relaxed, both: a check more or less.
    if now_ms.saturating_sub(REQUESTED_MS.load(Ordering::Relaxed)) >= INTERVAL_MS {
        REQUESTED_MS.store(now_ms, Ordering::Relaxed);
        chunk::note_sweep();
    }
}

/// The largest alignment that all objects of a cache have.
fn natural_align(shape: &Shape) -> usize {
    1 << shape.stride.trailing_zeros()
}

/// Ends the change of a place that the caller is changing.
fn finish(place: usize, state: State) {
    let is_changed = change(place, table::state(place), state).is_some();
    debug_assert!(is_changed, "a place that is being changed belongs to one thread");
}

fn write_event(place: usize, event: usize, frame: Frame) {
    let mut frames = [0; FRAMES_MAX];
    let count = stack::walk(frame, &mut frames);
    table::set_event(place, event, &frames[..count]);
}

/// The checked bytes before and behind the block of a place that the caller owns.
fn zones<'a>(geometry: Geometry, place: usize) -> [&'a mut [u8]; 2] {
    let (start, end) = (geometry.place(place), geometry.place(place) + geometry.body);
    let block = field(place, ADDRESS) as usize;
    let behind = block + field(place, BYTES) as usize;
    let before = block.saturating_sub(ZONE_BYTES).max(start);
    [(before, block), (behind, end.min(behind + ZONE_BYTES))].map(|(from, to)| {
        let start = with_exposed_provenance_mut(from);
        // SAFETY: inside the place's pages, which are accessible; nothing else refers to them.
        unsafe { core::slice::from_raw_parts_mut(start, to - from) }
    })
}

/// Bytes of the block that starts at an address of the pool. Aborts the process, with a report that
/// names the call, if none does.
#[must_use]
pub fn bytes_of(address: usize) -> usize {
    field(live_place(address, |_| true).0, BYTES) as usize
}

/// The place of the block that starts at an address, and its state, which `may_be` accepts.
fn live_place(address: usize, may_be: impl Fn(State) -> bool) -> (usize, u64) {
    let Some(place) = geometry().and_then(|geometry| geometry.place_of(address)) else {
        report::die(Misuse::NotStart, address)
    };
    let word = table::state(place);
    let misuse = match State::of(word) {
        // If it is being changed, another thread frees it now.
        State::Freed | State::Changing => Misuse::DoubleFree,
        State::Unused => Misuse::NotStart,
        _ if field(place, ADDRESS) as usize != address => Misuse::NotStart,
        state if may_be(state) => return (place, word),
        _ => Misuse::FreeOfDeferred,
    };
    report::die(misuse, address)
}

/// Frees a block of malloc, if it is one: otherwise aborts the process, with a report. Returns its
/// cache, and the object in whose place it was allocated, which is the caller's now.
pub(crate) fn free(address: usize, frame: Frame) -> (CacheId, usize) {
    let (place, word) = live_place(address, |state| state == State::Allocated);
    let id = CacheId::new(field(place, CACHE) as u16);
    if !id.is_class() {
        report::die(Misuse::OtherCache, address);
    }
    (id, end(place, word, address, frame))
}

/// Makes the pages of a block inaccessible; returns the object in whose place it was.
fn end(place: usize, word: u64, address: usize, frame: Frame) -> usize {
    let is_start = field(place, ADDRESS) as usize == address;
    let Some(geometry) = geometry().filter(|_| is_start) else {
        report::die(Misuse::DoubleFree, address)
    };
    if change(place, word, State::Changing).is_none() {
        report::die(Misuse::DoubleFree, address);
    }
    write_event(place, FREE, frame);
    if zones(geometry, place).iter().flat_map(|zone| zone.iter()).any(|byte| *byte != ZONE) {
        finish(place, State::Allocated);
        report::die(Misuse::Damaged, address);
    }
    profile::close(address);
    let object = field(place, OBJECT) as usize;
    // SAFETY: the pages of a place whose block is free, and that this thread owns.
    unsafe { map::hide(geometry.place(place), geometry.body) };
    // Relaxed: see `is_live`.
    LIVE.fetch_sub(1, Ordering::Relaxed);
    finish(place, State::Freed);
    object
}

/// Replaces traps, in a sheaf that has left its slot or whose grace period is over, by the
/// objects in whose place they are: the traps are free now.
#[cold]
pub(crate) fn replace_traps(objects: &mut [usize]) {
    let pool = table::range();
    // Most sheaves hold none, which is found without a branch for each object.
    let has_trap = |found, object| found | pool.contains(object);
    if !objects.iter().fold(false, has_trap) {
        return;
    }
    for object in objects.iter_mut().filter(|object| contains(**object)) {
        let (place, word) = live_place(*object, |_| true);
        *object = end(place, word, *object, Frame::NONE);
    }
}

/// Notes that a block is deferred by the caller of a function; aborts the process, with a report,
/// if it is deferred already. Returns its cache.
pub(crate) fn defer(address: usize, frame: Frame) -> CacheId {
    let (place, word) = live_place(address, |state| state == State::Allocated);
    // An event is written before the state says so: nothing reads it before.
    write_event(place, DEFERRAL, frame);
    if change(place, word, State::Deferred).is_none() {
        report::die(Misuse::DoubleFree, address);
    }
    profile::defer(address, frame);
    CacheId::new(field(place, CACHE) as u16)
}

/// Notes that the traps among some objects are deferred, unless that is known.
#[cold]
pub(crate) fn note_deferred(objects: &[usize]) {
    for object in objects.iter().filter(|object| contains(**object)) {
        let (place, word) = live_place(*object, |_| true);
        if State::of(word) == State::Allocated {
            table::set_event(place, DEFERRAL, &[]);
            // Otherwise another thread frees it: that is reported when it is freed again.
            let _ = change(place, word, State::Deferred);
        }
    }
}

/// Notes the call that defers the free of a block of the heap, if that is a trap: for calls
/// that free it themselves after a grace period.
#[inline]
pub fn note_deferral(address: usize, frame: Frame) {
    #[cold]
    fn note(address: usize, frame: Frame) {
        if let Some(place) = geometry().and_then(|geometry| geometry.place_of(address))
            && State::of(table::state(place)) == State::Allocated
        {
            write_event(place, DEFERRAL, frame);
        }
    }
    if contains(address) {
        note(address, frame);
    }
}
