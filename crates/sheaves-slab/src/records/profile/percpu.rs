//! Per-CPU objects: one is a sample if one of its bytes is, in any slot that is in use.

use sheaves_percpu::internal::observer::{self, Observer};
use sheaves_percpu::internal::slots::slots_used;
use sheaves_sys::stack::Frame;

use super::sites::{Key, Kind};
use super::{PROFILE, Request, open_records, rate};
use crate::parts::shape::Name;

static OBSERVER: Observer = Observer { alloc: note_alloc, free: note_free };

/// From now on per-CPU objects can be samples, while profiling is on.
pub(crate) fn begin() {
    observer::observe(&OBSERVER);
}

extern "C" fn note_alloc(address: usize, bytes: usize, stack: usize, frame: usize) {
    if rate() != 0 {
        let bytes = bytes * slots_used().max(1);
        let request = Request { bytes, align: 0, frame: Frame { stack, frame } };
        let key = Key { kind: Kind::PerCpu, cache: 0, is_deferral: false };
        PROFILE.lock().open_by_bytes(key, Name::new("percpu"), address, 0, &request);
    }
}

fn note_free(address: usize) {
    if open_records() != 0 {
        PROFILE.lock().close(address);
    }
}
