//! Samples of allocations: which are alive, how many objects and bytes they stand for, and where
//! they were allocated.
//!
//! This part knows addresses only. Which allocation becomes a sample is decided in `tags`.
//!
//! | state | changes |
//! |---|---|
//! | off, never used | -> on, by [`begin`] |
//! | on | -> off, by [`end`]; -> on with nothing known, by [`begin`] |
//! | off | as on, but there are no new samples; frees are noted still |
//!
//! One lock covers everything. Of the locks under it there is only that of the slots, and nothing
//! but address space is asked for.

pub(crate) mod chance;
pub mod large;
mod sites;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sheaves_percpu::internal::slots;
use sheaves_sys::function::FnCell;
use sheaves_sys::lock::Lock;
use sheaves_sys::stack::{self, Frame};
use sheaves_sys::{clock, options, probe};

use crate::records::by_address::{ByAddress, Table};
use crate::space::cache_id::CacheId;
use crate::space::checking;
pub(crate) use sites::{FRAMES_MAX, Kind, Listed};
use sites::{Sites, Source};

/// The lowest and the highest mean distance of samples, in bytes.
pub const RATE_BYTES_MIN: usize = options::PROF_BYTES.0 as usize;
/// See [`RATE_BYTES_MIN`].
pub const RATE_BYTES_MAX: usize = options::PROF_BYTES.1 as usize;

/// Usual mean bytes from one sample to the next.
pub const RATE_BYTES: usize = 512 << 10;

/// Mean bytes from one sample to the next; 0 while profiling is off.
#[unsafe(link_section = ".sheaves_load")]
static RATE: AtomicUsize = AtomicUsize::new(0);
/// Mean bytes from one tag to the next: [`RATE`], or that of guard samples where it is 0.
static TAG_RATE: AtomicUsize = AtomicUsize::new(0);
/// Profiling was on at some time: there may be tagged entries and watched slabs.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Called, with true, when samples are to be drawn, and with false when they are no longer.
#[unsafe(link_section = ".sheaves_load")]
static SWITCH: FnCell<fn(bool)> = FnCell::new();
/// Number of records; of those of deferred objects.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static DEFERRED: AtomicUsize = AtomicUsize::new(0);

/// What is known of an allocation where it can become a sample.
#[derive(Debug, Clone, Copy)]
pub struct AllocRequest {
    /// The bytes that were requested; 0 for those of an object.
    pub bytes: usize,
    /// The alignment that was requested; 0 for that of an object.
    pub align: usize,
    /// The caller.
    pub frame: Frame,
}

impl AllocRequest {
    /// Nothing is known.
    pub const NONE: AllocRequest = AllocRequest { bytes: 0, align: 0, frame: Frame::NONE };
}

/// A sample that is allocated or deferred.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Record {
    address: usize,
    /// The bytes that were requested.
    bytes: usize,
    /// What it stands for: see [`chance::weight`].
    weight: u64,
    /// The byte of a large block that made it a sample: a block that becomes shorter is none.
    point: usize,
    /// Index of its site.
    site: u32,
    is_deferred: bool,
}

// SAFETY: all fields are numbers, or false.
unsafe impl ByAddress for Record {
    const CAPACITY_MAX: usize = 1 << 21;

    fn address(&self) -> usize {
        self.address
    }
}

/// State under the lock.
#[derive(Debug)]
pub(crate) struct Profile {
    records: Table<Record>,
    sites: Sites,
    /// Mean bytes from one tag to the next while the profile is off, for guard samples.
    trap_rate: usize,
    head: Head,
}

/// What a dump begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// The rate of the samples, on or off.
    pub(crate) rate: usize,
    /// Number of [`begin`]s.
    pub(crate) session: u64,
    pub(crate) since_ms: u64,
    /// Samples that were not recorded, because memory or the room for sites was out.
    pub(crate) dropped: u64,
}

#[unsafe(link_section = ".sheaves_load")]
pub(crate) static PROFILE: Lock<Profile> = Lock::new(Profile {
    records: Table::EMPTY,
    sites: Sites::new(),
    trap_rate: 0,
    head: Head { rate: 0, session: 0, since_ms: 0, dropped: 0 },
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
    // Relaxed: the record of an object was made by the thread that allocated it, and the object
    // reached the caller by an ordered path.
    OPEN.load(Ordering::Relaxed)
}

/// Number of records of deferred objects, likewise.
pub(crate) fn deferred_records() -> usize {
    // Relaxed: as above.
    DEFERRED.load(Ordering::Relaxed)
}

/// True once profiling has been on.
#[must_use]
pub fn was_on() -> bool {
    head().session != 0
}

/// Forgets all samples, and takes new ones at a rate. False when memory is out.
pub(crate) fn begin(rate: usize) -> bool {
    let rate = if checking::is_debug() { 1 } else { rate.clamp(RATE_BYTES_MIN, RATE_BYTES_MAX) };
    let mut profile = PROFILE.lock();
    if !profile.sites.map() {
        return false;
    }
    profile.records.clear();
    profile.sites.clear();
    // Relaxed, both: see `open_records`. A record that another thread makes is counted under the
    // lock.
    OPEN.store(0, Ordering::Relaxed);
    DEFERRED.store(0, Ordering::Relaxed);
    let session = profile.head.session + 1;
    profile.head = Head { rate, session, since_ms: clock::wall_ms(), dropped: 0 };
    profile.set_rate(rate);
    true
}

/// Takes no new samples.
pub(crate) fn end() {
    PROFILE.lock().set_rate(0);
}

/// Calls a function now, and whenever samples begin or end to be drawn: with true while they
/// are. Under the profile's lock: it takes no other one.
pub fn on_switch(function: fn(bool)) {
    let profile = PROFILE.lock();
    SWITCH.set(Some(function));
    function(tag_rate() != 0);
    drop(profile);
}

/// Sets the mean bytes from one tag to the next while the profile is off.
pub(crate) fn set_trap_rate(rate: usize) {
    let mut profile = PROFILE.lock();
    profile.trap_rate = rate.min(RATE_BYTES_MAX);
    profile.set_rate(self::rate());
}

/// The return addresses of the callers.
struct Stack([usize; FRAMES_MAX], usize);

impl Stack {
    /// Not under the profile's lock: a walk may take as long as many samples.
    fn of(frame: Frame) -> Stack {
        let mut addresses = [0; FRAMES_MAX];
        let count = stack::walk(frame, &mut addresses);
        Stack(addresses, count)
    }
}

/// Takes samples at the rate that `SHEAVES_PROF` asks for. In debug mode each allocation is a
/// sample from the start.
pub(crate) fn start_option() {
    let asked = options::PROF.asked().map(|rate| rate as usize);
    if let Some(rate) = asked.or(checking::is_debug().then_some(1)) {
        begin(rate);
    }
}

/// Notes a sample: an object of a cache that was just allocated.
pub(crate) fn open(id: CacheId, object: usize, request: &AllocRequest) {
    let shape = id.shape();
    let bytes = if request.bytes == 0 { shape.size } else { request.bytes };
    let kind = if id.is_class() { Kind::Malloc } else { Kind::Cache };
    let source = Source { kind, cache: id.number(), is_deferral: false, name: shape.name };
    let stack = Stack::of(request.frame);
    PROFILE.lock().open(source, object, [bytes, shape.stride, 0], &stack);
}

/// Notes that an object or a large block is freed, before another thread can get its address. True
/// if it was a sample.
#[inline]
pub fn close(address: usize) -> bool {
    open_records() != 0 && PROFILE.lock().close(address).is_some()
}

/// Notes that an object or a large block is deferred by the caller of a function.
#[inline]
pub fn defer(address: usize, frame: Frame) {
    let is_live = || {
        let mut profile = PROFILE.lock();
        profile.records.get(address).is_some_and(|record| !record.is_deferred)
    };
    if open_records() != 0 && is_live() {
        let stack = Stack::of(frame);
        PROFILE.lock().defer(address, &stack);
    }
}

/// Notes that a sample has another size now, in its place.
pub fn resize(object: usize, bytes: usize) {
    if open_records() != 0 {
        let mut profile = PROFILE.lock();
        if let Some(record) = profile.take(object) {
            profile.put_back(Record { bytes, ..record });
        }
    }
}

impl Profile {
    /// Sets the rate of samples, 0 for none, and switches the words from which objects are
    /// allocated. That is one step for a fork, whose handlers take the lock.
    fn set_rate(&mut self, rate: usize) {
        let tag_rate = if rate == 0 { self.trap_rate } else { rate };
        // Relaxed, both: see `is_used` and `rate`.
        if tag_rate != 0 {
            IS_USED.store(true, Ordering::Relaxed);
        }
        RATE.store(rate, Ordering::Relaxed);
        // Release pairs with the Acquire in `tag_rate`: tags are used from here on. [T1]
        TAG_RATE.store(tag_rate, Ordering::Release);
        if let Some(switch) = SWITCH.get() {
            switch(tag_rate != 0);
        }
        slots::set_source(tag_rate != 0 && !checking::is_hardened());
    }

    /// Adds a record of an allocation of `bytes`. Its weight is that of an object with `stride`
    /// bytes, and its `point` that of [`Record`].
    fn open(
        &mut self,
        source: Source,
        address: usize,
        [bytes, stride, point]: [usize; 3],
        stack: &Stack,
    ) {
        // A record of an earlier allocation at this address: the free was not noted.
        self.close(address);
        let weight = chance::weight(stride, self.head.rate);
        let record = |site| Record { address, bytes, weight, point, site, is_deferred: false };
        match self.site(source, stack) {
            Some(site) if self.insert(record(site)) => {
                self.sites.site(site).all.add(true, weight, bytes);
                let weight_bytes = weight as usize * bytes / chance::WEIGHT_ONE as usize;
                probe::sample_alloc(address, bytes, weight_bytes);
            }
            _ => self.head.dropped += 1,
        }
    }

    fn site(&mut self, source: Source, Stack(addresses, count): &Stack) -> Option<u32> {
        self.sites.find(source, &addresses[..*count])
    }

    fn insert(&mut self, record: Record) -> bool {
        let has_room = self.records.reserve(1);
        if has_room {
            self.records.store(record);
            self.count(&record, true);
        }
        has_room
    }

    /// Inserts a record in place of one that was just taken.
    fn put_back(&mut self, record: Record) {
        let is_inserted = self.insert(record);
        debug_assert!(is_inserted, "an entry was just removed");
    }

    /// Adds a record to the sums of its site, or subtracts it.
    fn count(&mut self, record: &Record, is_added: bool) {
        self.sites.site(record.site).live.add(is_added, record.weight, record.bytes);
        let step = if is_added { 1 } else { usize::MAX };
        // Relaxed, both: see `open_records`; they change under the lock.
        OPEN.fetch_add(step, Ordering::Relaxed);
        if record.is_deferred {
            DEFERRED.fetch_add(step, Ordering::Relaxed);
        }
    }

    fn close(&mut self, address: usize) -> Option<Record> {
        let record = self.take(address)?;
        probe::sample_free(address);
        Some(record)
    }

    fn take(&mut self, address: usize) -> Option<Record> {
        let index = self.records.find(address)?;
        let record = self.records.remove(index);
        self.count(&record, false);
        Some(record)
    }

    fn defer(&mut self, address: usize, stack: &Stack) {
        let Some(record) = self.records.get(address).filter(|record| !record.is_deferred) else {
            return;
        };
        let source = Source { is_deferral: true, ..self.sites.site(record.site).source };
        let site = self.site(source, stack);
        self.take(address);
        if let Some(site) = site {
            self.sites.site(site).all.add(true, record.weight, record.bytes);
        }
        // Without room for the site it stays at that of its allocation. As one of a deferred object
        // it ends with the grace period.
        self.put_back(Record { site: site.unwrap_or(record.site), is_deferred: true, ..record });
    }
}

pub(crate) fn head() -> Head {
    PROFILE.lock().head
}

/// Copies of the sites of a session, from an index on; none once there is another session.
pub(crate) fn sites(session: u64, mut index: u32) -> impl Iterator<Item = Listed> {
    core::iter::from_fn(move || {
        let mut profile = PROFILE.lock();
        let is_same = profile.head.session == session;
        let listed = is_same.then(|| profile.sites.next(index))??;
        index = listed.index + 1;
        Some(listed)
    })
}

#[cfg(test)]
#[path = "../../../tests/unit/profile.rs"]
pub(crate) mod tests;
