//! The objects of a run. Each records its state, and shows when it has changed.
//!
//! | `state` | meaning | transitions |
//! |---|---|---|
//! | live | an updater or a place has it | -> deferred, by the thread that unlinked it |
//! | deferred | only readers may have it | -> ended, by the function that frees it |
//! | | | -> live, where whole sheaves come back: by the thread that gets it next |
//! | ended | freed, and poisoned | -> live, the same way |
//! | anything else | the memory was something else | -> live |
//!
//! A state is combined with the address, so that remains of other objects are no state. The
//! allocator writes into no free object: so a thread that gets a live one has found a double
//! allocation.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use sheaves_rcu::defer::Head;

use super::counts::{COUNTS, Fault};
use super::route::Route;

/// Bytes of the smallest object.
pub(super) const BYTES_MIN: usize = 64;
/// Bytes of the largest object.
pub(super) const BYTES_MAX: usize = 3 << 20;

const LIVE: u64 = 0x11FE;
const DEFERRED: u64 = 0xDEFE;
const ENDED: u64 = 0xE4DE;
/// Serial and tail of an ended object.
const POISON: u64 = 0x6B6B_6B6B_6B6B_6B6B;
/// The tail of an object is its serial with these bits changed.
const TAIL: u64 = 0x7A11 << 32;
/// Written by constructors, and the sign of objects of type-stable caches.
const MARK: u64 = 0xC057_0000_0000_0001;

/// The beginning of every object. Its last word is its tail.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Body {
    state: AtomicU64,
    /// A number that differs for each life of an object.
    serial: AtomicU64,
    bytes: AtomicUsize,
    /// [`MARK`] in objects that a constructor has made. Never written otherwise.
    mark: AtomicU64,
}

impl Body {
    /// The initial contents of boxes.
    pub(super) const fn blank() -> Body {
        Body {
            state: AtomicU64::new(0),
            serial: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            mark: AtomicU64::new(0),
        }
    }

    /// The object at an address.
    ///
    /// # Safety
    /// Memory of at least [`BYTES_MIN`] bytes exists as long as anything uses it.
    pub(super) unsafe fn at(address: *mut u8) -> &'static Body {
        address.expose_provenance();
        // SAFETY: the same contract; a body is atomic words, which may hold anything.
        unsafe { &*address.cast() }
    }

    pub(super) fn address(&self) -> *mut u8 {
        // The address of the whole object, see `at`.
        with_exposed_provenance_mut(core::ptr::from_ref(self).addr())
    }

    fn in_state(&self, state: u64) -> u64 {
        (core::ptr::from_ref(self).addr() as u64) << 16 | state
    }

    /// The last word.
    fn tail(&self, bytes: usize) -> &AtomicU64 {
        // SAFETY: inside of the object.
        let tail = unsafe { self.address().add((bytes & !7) - 8) };
        // SAFETY: aligned, as the object is; an atomic word may hold anything.
        unsafe { &*tail.cast() }
    }

    /// Makes an object that was just allocated the caller's.
    pub(super) fn begin(&self, route: Route, bytes: usize, serial: u64) {
        let before = self.state.swap(self.in_state(LIVE), Ordering::AcqRel);
        if before == self.in_state(LIVE) {
            COUNTS.fault(Fault::Twice, route);
        }
        if route.is_constructed() && self.mark.load(Ordering::Relaxed) != MARK {
            COUNTS.fault(Fault::Constructor, route);
        }
        self.serial.store(serial, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.tail(bytes).store(serial ^ TAIL, Ordering::Relaxed);
        COUNTS.made(route);
    }

    /// Marks an object that the caller has unlinked and is about to defer.
    pub(super) fn defer(&self, route: Route) {
        let before = self.state.swap(self.in_state(DEFERRED), Ordering::AcqRel);
        if before != self.in_state(LIVE) {
            COUNTS.fault(Fault::State, route);
        }
        COUNTS.deferred(route);
    }

    /// Marks an object whose free function was called.
    pub(super) fn end(&self, route: Route) {
        let before = self.state.swap(self.in_state(ENDED), Ordering::AcqRel);
        if before != self.in_state(DEFERRED) {
            COUNTS.fault(Fault::State, route);
        }
        self.tail(self.bytes.load(Ordering::Relaxed)).store(POISON, Ordering::Relaxed);
        self.serial.store(POISON, Ordering::Relaxed);
        COUNTS.ended(route);
    }
}

/// The constructor of all objects.
///
/// # Safety
/// The object is at least [`BYTES_MIN`] bytes, and the caller's.
pub(super) unsafe extern "C" fn construct(object: NonNull<u8>) {
    // SAFETY: the same contract.
    unsafe { Body::at(object.as_ptr()) }.mark.store(MARK, Ordering::Relaxed);
}

/// An object as a reader has found it.
pub(super) struct Seen {
    body: &'static Body,
    route: Route,
    serial: u64,
    bytes: usize,
}

impl Seen {
    /// Called at the begin of a section. Async-signal-safe, like [`Seen::check`].
    pub(super) fn new(body: &'static Body, route: Route) -> Seen {
        let (serial, bytes) =
            (body.serial.load(Ordering::Relaxed), body.bytes.load(Ordering::Relaxed));
        let seen = Seen { body, route, serial, bytes };
        seen.check();
        seen
    }

    /// Called at the end of the section: checks that the object is unchanged. An object that is
    /// freed at once may be another one, but is still one of its cache.
    pub(super) fn check(&self) {
        fence(Ordering::Acquire);
        let body = self.body;
        let is_fine = if self.route == Route::TypeStableFree {
            body.mark.load(Ordering::Relaxed) == MARK
        } else {
            let states = [LIVE, DEFERRED].map(|state| body.in_state(state));
            (BYTES_MIN..=BYTES_MAX).contains(&self.bytes)
                && body.serial.load(Ordering::Relaxed) == self.serial
                && body.bytes.load(Ordering::Relaxed) == self.bytes
                && body.tail(self.bytes).load(Ordering::Relaxed) == self.serial ^ TAIL
                && states.contains(&body.state.load(Ordering::Relaxed))
        };
        if !is_fine {
            COUNTS.fault(Fault::Early, self.route);
        }
    }
}

/// A small object with a head, and a value that fits into one.
#[repr(C)]
pub(super) struct Headed {
    body: Body,
    pub(super) head: Head,
    tail: [AtomicU64; 2],
}

/// What boxes hold.
#[repr(C)]
pub(super) struct Plain {
    pub(super) body: Body,
    tail: [AtomicU64; 5],
}

/// The same with a destructor.
#[repr(C)]
pub(super) struct Dropping {
    pub(super) value: Plain,
    pub(super) route: Route,
}

impl Plain {
    pub(super) const fn blank() -> Plain {
        Plain { body: Body::blank(), tail: [const { AtomicU64::new(0) }; 5] }
    }
}

impl Drop for Dropping {
    fn drop(&mut self) {
        self.value.body.end(self.route);
    }
}

const _: () = assert!(size_of::<Headed>() == BYTES_MIN && size_of::<Plain>() >= BYTES_MIN);
