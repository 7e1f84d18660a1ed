//! Closures that run while a chain is locked: which thread is in one, of which map.
//!
//! A closure that changes its own map would wait for its own thread, as soon as both keys are in
//! one chain. So it is refused, whatever the keys are. Each thread has a line, which few others
//! share, and notes there what it is in. Without a vacant place it goes without, and is not refused
//! anything.
//!
//! A name has the generation of its process: what threads of a parent have noted is not taken for
//! that of a thread here, but keeps its place.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::{fork, tls};

const LINES: usize = 64;
/// Closures that the threads of a line may be in at a time.
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

    fn of(thread: usize) -> &'static Line {
        let mixed = (thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &LINES_OF_THREADS[(mixed >> 58) as usize]
    }
}

const _: () = assert!(LINES == 1 << 6);

/// The calling thread's name: where its memory is, which is aligned, and the generation above.
fn thread() -> usize {
    tls::thread_pointer() ^ fork::generation() << (usize::BITS - 12)
}

/// While it lasts, the calling thread is in a closure of a map.
pub(super) struct Inside {
    thread: usize,
    place: Option<&'static Place>,
}

impl Inside {
    pub(super) fn begin(map: usize) -> Inside {
        let thread = thread();
        // Relaxed, all: only the thread itself compares its name and reads what it has written.
        let (relaxed, vacant) = (Ordering::Relaxed, 0);
        let claim = |place: &&Place| {
            place.thread.load(relaxed) == vacant
                && place.thread.compare_exchange(vacant, thread, relaxed, relaxed).is_ok()
        };
        let place = Line::of(thread).0.iter().find(claim);
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
    let thread = thread();
    // Relaxed, both: as in `begin`.
    let is_it = |place: &Place| {
        place.thread.load(Ordering::Relaxed) == thread && place.map.load(Ordering::Relaxed) == map
    };
    let is_inside = Line::of(thread).0.iter().any(is_it);
    assert!(
        !is_inside,
        "map: a closure changes the map that calls it, which would wait for itself"
    );
}
