//! Large blocks, which `sheaves-heap` samples, and per-CPU objects: one is a sample if one of its
//! bytes is; of a per-CPU object, in any slot that is in use.

use sheaves_percpu::internal::slots::slots_used;
use sheaves_percpu::internal::{Observer, observe_objects};
use sheaves_sys::stack::Frame;

use super::sites::{Kind, Source};
use super::{AllocRequest, PROFILE, Record, Stack, chance, close, open_records, rate};
use crate::parts::shape::Name;

/// A large block was allocated.
#[inline]
pub fn note_alloc(address: usize, request: &AllocRequest) {
    if rate() != 0 {
        open(Kind::Large, address, 0, request);
    }
}

/// A block of `old` bytes was resized, and perhaps moved. A shorter one stays a sample if it still
/// has the byte that made it one. Called before another thread can get the old address. True if the
/// bytes that were added can make it a sample: then [`note_growth`] follows, without a lock.
#[inline]
#[must_use]
pub fn note_resize(address: usize, new_address: usize, old: usize, request: &AllocRequest) -> bool {
    may_note() && note_resize_slow(address, new_address, old, request)
}

/// True if [`note_resize`] has to be called.
#[inline]
#[must_use]
pub fn may_note() -> bool {
    rate() != 0 || open_records() != 0
}

#[cold]
fn note_resize_slow(
    address: usize,
    new_address: usize,
    old: usize,
    request: &AllocRequest,
) -> bool {
    let mut profile = PROFILE.lock();
    let Some(record) = profile.close(address) else { return request.bytes > old };
    if record.point < request.bytes {
        let weight = chance::weight(request.bytes, profile.head.rate);
        let bytes = request.bytes;
        profile.put_back(Record { address: new_address, bytes, weight, ..record });
    }
    false
}

/// A block has grown from `old` bytes. Walks the stack if it becomes a sample.
#[cold]
pub fn note_growth(address: usize, old: usize, request: &AllocRequest) {
    open(Kind::Large, address, old, request);
}

/// Makes a block a sample if one of its bytes from `start` on is one.
#[cold]
fn open(kind: Kind, address: usize, start: usize, request: &AllocRequest) {
    let rate = rate();
    let point = start as f64 + chance::skip_bytes(rate);
    if rate != 0 && point < request.bytes as f64 {
        let name = Name::new(if kind == Kind::Large { "large" } else { "percpu" });
        let source = Source { kind, cache: 0, is_deferral: false, name };
        let stack = Stack::of(request.frame);
        let numbers = [request.bytes, request.bytes, point as usize];
        PROFILE.lock().open(source, address, numbers, &stack);
    }
}

static OBSERVER: Observer =
    Observer { alloc: note_percpu_alloc, free: |address| _ = close(address) };

/// From now on per-CPU objects can be samples, while profiling is on.
pub(crate) fn observe_percpu() {
    observe_objects(&OBSERVER);
}

extern "C" fn note_percpu_alloc(address: usize, bytes: usize, frame: Frame) {
    if rate() != 0 {
        let bytes = bytes * slots_used().max(1);
        let request = AllocRequest { bytes, align: 0, frame };
        open(Kind::PerCpu, address, 0, &request);
    }
}
