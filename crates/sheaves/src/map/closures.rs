//! Closures that run while a chain is locked, and destructors that a change of a map runs: which
//! thread is in one, of which map.
//!
//! A closure that changes its own map would wait for its own thread, as soon as both keys are in
//! one chain. So it is refused, whatever the keys are. A change that a destructor makes drops no
//! entries in turn, see `entry`. Each thread notes what it is in, beginning at a line which few
//! others share. Where all places are taken, by 256 notes at a time, it goes without: then it is
//! not refused anything, and destructors nest.
//!
//! A name has the generation of its process: what threads of a parent have noted is not taken for
//! that of a thread here, unless it is the thread that has forked, and keeps its place.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::{fork, tls};

const LINES: usize = 64;
const PLACES: usize = 4;

static LINES_OF_THREADS: [Line; LINES] = [const { Line::new() }; LINES];

#[repr(align(64))]
struct Line([Place; PLACES]);

/// The name of a thread, or 0, and the address of a map. The thread that has put its name there
/// alone writes both.
struct Place {
    thread: AtomicUsize,
    map: AtomicUsize,
}

impl Line {
    const fn new() -> Line {
        Line([const { Place { thread: AtomicUsize::new(0), map: AtomicUsize::new(0) } }; PLACES])
    }
}

const _: () = assert!(LINES == 1 << 6);

/// All places, from the line of a thread pointer on.
fn places(thread: usize) -> impl Iterator<Item = &'static Place> {
    let mixed = (thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (before, after) = LINES_OF_THREADS.split_at((mixed >> 58) as usize);
    after.iter().chain(before).flat_map(|line| &line.0)
}

/// A name is a thread pointer, where the thread's memory is, and the generation above.
const GENERATION_SHIFT: u32 = usize::BITS - 12;

/// Is in the address of a map for its destructors, of which no chain is locked.
pub(super) const DESTRUCTORS: usize = 1;

/// While it lasts, the calling thread is in a closure of a map, or in a destructor.
pub(super) struct Inside {
    thread: usize,
    place: Option<&'static Place>,
}

impl Inside {
    pub(super) fn begin(map: usize) -> Inside {
        let pointer = tls::thread_pointer();
        let thread = pointer ^ fork::generation() << GENERATION_SHIFT;
        // Relaxed, all: only the thread itself compares its name and reads what it has written.
        let (relaxed, vacant) = (Ordering::Relaxed, 0);
        let claim = |place: &&Place| {
            place.thread.load(relaxed) == vacant
                && place.thread.compare_exchange(vacant, thread, relaxed, relaxed).is_ok()
        };
        let place = places(pointer).find(claim);
        if let Some(place) = place {
            place.map.store(map, relaxed);
        }
        Inside { thread, place }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            // Relaxed, both: as above. The name is the one from `begin`, also in a child.
            place.map.store(0, Ordering::Relaxed);
            let (vacant, relaxed) = (0, Ordering::Relaxed);
            let _ = place.thread.compare_exchange(self.thread, vacant, relaxed, relaxed);
        }
    }
}

/// Called before the calling thread locks a chain of a map. Costs a load if it has none locked.
#[inline(always)]
pub(super) fn refuse_inside(map: usize) {
    if tls::bit_locks() != 0 {
        refuse_inside_slow(map);
    }
}

#[cold]
#[inline(never)]
fn refuse_inside_slow(map: usize) {
    assert!(
        !is_inside(map),
        "map: a closure changes the map that calls it, which would wait for itself"
    );
}

/// True if the calling thread is in a closure of a map, or in a destructor.
pub(super) fn is_inside(map: usize) -> bool {
    let pointer = tls::thread_pointer();
    let is_own = |place: &&Place| {
        // Relaxed, here and below: as in `begin`.
        let name = place.thread.load(Ordering::Relaxed);
        let generation = name >> GENERATION_SHIFT;
        name ^ generation << GENERATION_SHIFT == pointer
            && !fork::is_gone(pointer, generation, usize::MAX >> GENERATION_SHIFT)
    };
    let maps = places(pointer).filter(is_own).map(|place| place.map.load(Ordering::Relaxed));
    // Each closure has a lock. Where these are not counted, all places are looked at.
    let is_counted = tls::HAS_AREA && map & DESTRUCTORS == 0;
    let most = if is_counted { tls::bit_locks().into() } else { usize::MAX };
    maps.filter(|other| (other ^ map) & DESTRUCTORS == 0).take(most).any(|other| other == map)
}

#[cfg(test)]
#[path = "../../tests/unit/map_closures.rs"]
mod tests;
