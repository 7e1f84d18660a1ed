//! Samples of allocations: which are alive, how many objects and bytes they stand for, and where
//! they were allocated.
//!
//! This part knows addresses only. Which allocation becomes a sample is decided in `tags`; large
//! blocks are sampled by `sheaves-heap`.
//!
//! | state | changes |
//! |---|---|
//! | off, never used | -> on, by [`begin`] |
//! | on | -> off, by [`end`]; -> on with nothing known, by [`begin`] |
//! | off | as on, but there are no new samples; frees are noted still |
//!
//! One lock covers everything. It is the last in the order of locks: nothing but address space is
//! asked for under it.

pub(crate) mod chance;
pub mod large;
pub(crate) mod percpu;
mod records;
mod sites;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sheaves_sys::lock::Lock;
use sheaves_sys::stack::{self, Frame};
use sheaves_sys::{clock, options, probe};

use crate::space::cache_id::{CLASSES_MAX, CacheId};
use crate::space::mode;
use records::{Record, Records};
pub(crate) use sites::{FRAMES_MAX, Kind, Site};
use sites::{Key, Sites};

/// The lowest and the highest mean distance of samples, in bytes.
pub const RATE_BYTES_MIN: usize = options::PROF_BYTES.0 as usize;
/// See [`RATE_BYTES_MIN`].
pub const RATE_BYTES_MAX: usize = options::PROF_BYTES.1 as usize;

/// Usual mean bytes from one sample to the next.
pub const RATE_BYTES: usize = 512 << 10;

/// Mean bytes from one sample to the next; 0 while profiling is off.
static RATE: AtomicUsize = AtomicUsize::new(0);
/// Mean bytes from one tag to the next: [`RATE`], or that of guard samples where it is 0.
static TAG_RATE: AtomicUsize = AtomicUsize::new(0);
/// Profiling was on at some time: there may be tagged entries and watched slabs.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Number of records; of those of deferred objects; of those of large blocks.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static DEFERRED: AtomicUsize = AtomicUsize::new(0);
static LARGE: AtomicUsize = AtomicUsize::new(0);

/// What is known of an allocation where it can become a sample.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The bytes that were requested; 0 for those of an object.
    pub bytes: usize,
    /// The alignment that was requested; 0 for that of an object.
    pub align: usize,
    /// The caller.
    pub frame: Frame,
}

impl Request {
    /// Nothing is known.
    pub const NONE: Request = Request { bytes: 0, align: 0, frame: Frame::NONE };
}

/// State under the lock.
#[derive(Debug)]
pub(crate) struct Profile {
    records: Records,
    sites: Sites,
    /// The rate of the samples, on or off.
    rate: usize,
    /// That of tags while the profile is off, for guard samples.
    trap_rate: usize,
    /// Number of [`begin`]s.
    session: u64,
    since_ms: u64,
    /// Samples that were not recorded, because memory or the room for sites was out.
    dropped: u64,
}

pub(crate) static PROFILE: Lock<Profile> = Lock::new(Profile {
    records: Records::new(),
    sites: Sites::new(),
    rate: 0,
    trap_rate: 0,
    session: 0,
    since_ms: 0,
    dropped: 0,
});

/// Mean bytes from one sample to the next; 0 while profiling is off.
#[inline]
#[must_use]
pub fn rate() -> usize {
    // Relaxed: a thread that reads an old value takes or leaves a sample that it would not have.
    RATE.load(Ordering::Relaxed)
}

/// Mean bytes from one tag to the next; 0 while there are none.
#[inline]
#[must_use]
pub(crate) fn tag_rate() -> usize {
    // Acquire pairs with the Release in `set_rate`: a thread that tags an entry knows that tags are
    // used, and so does one that gets the entry from it. An old value is harmless, see `rate`. [T1]
    TAG_RATE.load(Ordering::Acquire)
}

/// True once profiling has been on, or guard samples.
#[inline]
pub(crate) fn is_used() -> bool {
    // Relaxed: set before the first entry is tagged, see `tag_rate`, and a thread that takes a
    // tagged entry out of a slot has got it by an ordered path. [T1]
    IS_USED.load(Ordering::Relaxed)
}

/// Number of records; exact for the caller's own objects.
pub(crate) fn open_records() -> usize {
    // Relaxed, here and below: the record of an object was made by the thread that allocated it,
    // and the object reached the caller by an ordered path.
    OPEN.load(Ordering::Relaxed)
}

/// Number of records of deferred objects, likewise.
pub(crate) fn deferred_records() -> usize {
    // Relaxed: as above.
    DEFERRED.load(Ordering::Relaxed)
}

/// Number of records of large blocks, likewise.
#[must_use]
pub(crate) fn large_records() -> usize {
    // Relaxed: as above.
    LARGE.load(Ordering::Relaxed)
}

/// True once profiling has been on.
#[must_use]
pub fn was_on() -> bool {
    PROFILE.lock().session != 0
}

/// Forgets all samples, and takes new ones at a rate. False when memory is out.
pub(crate) fn begin(rate: usize) -> bool {
    begin_at(rate.clamp(RATE_BYTES_MIN, RATE_BYTES_MAX))
}

fn begin_at(rate: usize) -> bool {
    let mut profile = PROFILE.lock();
    if !profile.sites.map() {
        return false;
    }
    profile.forget();
    profile.rate = rate;
    profile.session += 1;
    profile.since_ms = clock::wall_ms();
    let rate = profile.rate;
    profile.set_rate(rate);
    true
}

/// Takes no new samples.
pub(crate) fn end() {
    PROFILE.lock().set_rate(0);
}

/// Sets the mean bytes from one tag to the next while the profile is off.
pub(crate) fn set_trap_rate(rate: usize) {
    let mut profile = PROFILE.lock();
    profile.trap_rate = rate.min(RATE_BYTES_MAX);
    profile.set_rate(self::rate());
}

/// Stores the return addresses of the callers, as [`stack::walk`] does. The frame's function is in
/// the call chain.
pub(crate) fn walk(frame: Frame, out: &mut [usize]) -> usize {
    // SAFETY: the caller says so.
    unsafe { stack::walk(frame, out) }
}

/// Takes samples at the rate that `SHEAVES_PROF` asks for. In debug mode each allocation is a
/// sample from the start.
pub(crate) fn start_option() {
    if mode::is_debug() {
        begin_at(1);
        return;
    }
    if let Some(rate) = options::PROF.asked() {
        begin(rate as usize);
    }
}

/// Notes a sample: an object of a cache that was just allocated. False when there is no room.
pub(crate) fn open(id: CacheId, object: usize, request: &Request) -> bool {
    let shape = id.shape();
    let bytes = if request.bytes == 0 { shape.size } else { request.bytes };
    let is_class = usize::from(id.number()) <= CLASSES_MAX;
    let kind = if is_class { Kind::Malloc } else { Kind::Cache };
    let key = Key { kind, cache: id.number(), is_deferral: false };
    let record =
        Record { address: object, bytes, weight: 0, point: 0, site: 0, is_deferred: false };
    PROFILE.lock().open(key, shape.name, shape.stride, record, request.frame)
}

/// Notes that an object is freed. True if it was a sample.
pub(crate) fn close(object: usize) -> bool {
    open_records() != 0 && PROFILE.lock().close(object).is_some()
}

/// Notes that an object is deferred by the caller of a function, if it is a sample.
pub(crate) fn defer(object: usize, frame: Frame) {
    if open_records() != 0 {
        PROFILE.lock().defer(object, frame);
    }
}

/// Notes that a sample has another size now, in its place.
pub fn resize(object: usize, bytes: usize) {
    if open_records() != 0 {
        let mut profile = PROFILE.lock();
        if let Some(record) = profile.records.find(object) {
            let old = *record;
            record.bytes = bytes;
            profile.count(&old, false);
            profile.count(&Record { bytes, ..old }, true);
        }
    }
}

impl Profile {
    /// Sets the rate of samples, 0 for none.
    fn set_rate(&mut self, rate: usize) {
        let tag_rate = if rate == 0 { self.trap_rate } else { rate };
        // Relaxed, both: see `is_used` and `rate`.
        if tag_rate != 0 {
            IS_USED.store(true, Ordering::Relaxed);
        }
        RATE.store(rate, Ordering::Relaxed);
        // Release pairs with the Acquire in `tag_rate`: tags are used from here on. [T1]
        TAG_RATE.store(tag_rate, Ordering::Release);
    }

    /// Forgets all samples.
    fn forget(&mut self) {
        self.records.clear();
        self.sites.clear();
        self.dropped = 0;
        // Relaxed, all: see `open_records`. A record that another thread makes now is counted
        // under the lock.
        OPEN.store(0, Ordering::Relaxed);
        DEFERRED.store(0, Ordering::Relaxed);
        LARGE.store(0, Ordering::Relaxed);
    }

    /// Adds a record, whose site is that of `frame`. Its weight is that of an object with `stride`
    /// bytes.
    fn open(
        &mut self,
        key: Key,
        name: crate::parts::shape::Name,
        stride: usize,
        record: Record,
        frame: Frame,
    ) -> bool {
        // A record of an earlier allocation at this address: the free was not noted.
        self.close(record.address);
        let weight = chance::weight(stride, self.rate);
        let site = self.site(key, name, frame);
        let is_open = site.is_some_and(|site| self.insert(Record { weight, site, ..record }));
        if let (true, Some(site)) = (is_open, site) {
            self.sites.site(site as usize).all.add(weight, record.bytes);
            let weight_bytes = weight as usize * record.bytes / chance::WEIGHT_ONE as usize;
            probe::sample_alloc(record.address, record.bytes, weight_bytes);
        } else {
            self.dropped += 1;
        }
        is_open
    }

    /// Makes something with its own address a sample if one of its bytes from `start` on is one.
    fn open_by_bytes(
        &mut self,
        key: Key,
        name: crate::parts::shape::Name,
        address: usize,
        start: usize,
        request: &Request,
    ) {
        let (bytes, point) = (request.bytes, start as f64 + chance::skip_bytes(self.rate));
        if point < bytes as f64 {
            let point = point as usize;
            let record = Record { address, bytes, weight: 0, point, site: 0, is_deferred: false };
            self.open(key, name, bytes, record, request.frame);
        }
    }

    fn site(&mut self, key: Key, name: crate::parts::shape::Name, frame: Frame) -> Option<u32> {
        let mut addresses = [0; FRAMES_MAX];
        // SAFETY: the function that the frame is of is in the call chain of this one.
        let count = unsafe { stack::walk(frame, &mut addresses) };
        self.sites.find(key, name, &addresses[..count]).map(|site| site as u32)
    }

    fn insert(&mut self, record: Record) -> bool {
        let is_inserted = self.records.insert(record);
        if is_inserted {
            self.count(&record, true);
        }
        is_inserted
    }

    /// Adds a record to the sums of its site, or subtracts it.
    fn count(&mut self, record: &Record, is_added: bool) {
        let site = self.sites.site(record.site as usize);
        match is_added {
            true => site.live.add(record.weight, record.bytes),
            false => site.live.subtract(record.weight, record.bytes),
        }
        let step = if is_added { 1 } else { usize::MAX };
        // Relaxed, all: see `open_records`; they change under the lock.
        OPEN.fetch_add(step, Ordering::Relaxed);
        if record.is_deferred {
            DEFERRED.fetch_add(step, Ordering::Relaxed);
        }
        if site.kind == Kind::Large {
            LARGE.fetch_add(step, Ordering::Relaxed);
        }
    }

    fn close(&mut self, address: usize) -> Option<Record> {
        let record = self.take(address)?;
        probe::sample_free(address);
        Some(record)
    }

    fn take(&mut self, address: usize) -> Option<Record> {
        let record = self.records.remove(address)?;
        self.count(&record, false);
        Some(record)
    }

    fn defer(&mut self, address: usize, frame: Frame) {
        let Some(record) = self.records.find(address).copied() else { return };
        if record.is_deferred {
            return;
        }
        let from = *self.sites.site(record.site as usize);
        let key = Key { is_deferral: true, ..from.key() };
        let Some(site) = self.site(key, from.name, frame) else { return };
        self.take(address);
        self.sites.site(site as usize).all.add(record.weight, record.bytes);
        let is_inserted = self.insert(Record { site, is_deferred: true, ..record });
        debug_assert!(is_inserted, "an entry was just removed");
    }
}

/// What a dump begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) rate: usize,
    pub(crate) is_on: bool,
    pub(crate) session: u64,
    pub(crate) since_ms: u64,
    pub(crate) dropped: u64,
}

pub(crate) fn head() -> Head {
    let profile = PROFILE.lock();
    let Profile { rate, session, since_ms, dropped, .. } = *profile;
    Head { rate, is_on: self::rate() != 0, session, since_ms, dropped }
}

/// The next site of a session from an index on, and its addresses.
pub(crate) fn next_site(
    session: u64,
    index: usize,
    addresses: &mut [usize; FRAMES_MAX],
) -> Option<(usize, Site)> {
    let mut profile = PROFILE.lock();
    if profile.session != session {
        return None;
    }
    profile.sites.next(index, addresses)
}

/// Held by the unit tests that turn profiling on.
#[cfg(test)]
pub(crate) static TESTING: Lock<()> = Lock::new(());

#[cfg(test)]
#[path = "../../../tests/unit/profile.rs"]
mod tests;
