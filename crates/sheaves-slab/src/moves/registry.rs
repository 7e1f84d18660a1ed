//! The registry of cache numbers.
//!
//! The registry lock is held while a cache is created or destroyed, and while the window is
//! started.

use core::ops::Range;

use sheaves_percpu::Access;
use sheaves_percpu::internal::{Region, slots, try_start};
use sheaves_sys::{lock::Lock, options, probe};

use crate::parts::descriptor;
use crate::parts::shape::{Name, Shape};
use crate::records::{profile, secret, trap};
use crate::space::cache_id::{CACHES_MAX, CacheId, NAMED_FIRST, NAMED_FIRST_HARDENED};
use crate::space::chunk::{self, HugePages};
use crate::space::hint::Hint;
use crate::space::{checking, limit, window};

/// State under the registry lock.
#[derive(Debug)]
pub(crate) struct Registry {
    started: bool,
    /// One bit for each cache that exists.
    existing: [u64; CACHES_MAX.div_ceil(64)],
}

#[unsafe(link_section = ".sheaves_load")]
pub(crate) static REGISTRY: Lock<Registry> =
    Lock::new(Registry { started: false, existing: [0; CACHES_MAX.div_ceil(64)] });

/// Numbers from this on have never been used; changes under the registry lock.
#[unsafe(link_section = ".sheaves_load")]
static NUMBERS_USED: Hint = Hint::new(0);

/// Why a cache could not be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheError {
    /// Size 0 or above 64 KiB, or alignment above 64 KiB.
    Layout,
    /// All numbers of caches are taken.
    TooMany,
    /// No address space is left for the heap and its metadata.
    OutOfMemory,
}

impl core::fmt::Display for CacheError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            CacheError::Layout => "object size or alignment out of range",
            CacheError::TooMany => "too many caches",
            CacheError::OutOfMemory => "out of memory",
        })
    }
}

impl core::error::Error for CacheError {}

/// Creates a cache with the lowest free number of a range, once [`start`] has succeeded.
pub(crate) fn create(
    name: &str,
    shape: Shape,
    mut numbers: Range<usize>,
) -> Result<CacheId, CacheError> {
    let shape = Shape { name: Name::new(name), ..shape };
    let mut registry = REGISTRY.lock();
    if checking::is_hardened() && numbers.start == NAMED_FIRST {
        numbers.start = NAMED_FIRST_HARDENED;
    }
    let number = numbers
        .find(|number| !registry.has(CacheId::new(*number as u16)))
        .ok_or(CacheError::TooMany)?;
    if !descriptor::map_to(number) {
        return Err(CacheError::OutOfMemory);
    }
    let id = CacheId::new(number as u16);
    NUMBERS_USED.set(numbers_used().max(number + 1));
    if !shape.is_plain() {
        secret::draw();
    }
    // SAFETY: the registry lock is held, and no cache has the number.
    unsafe { id.set_shape(shape) };
    registry.flip(id);
    prepare_words(number + 1);
    let name = shape.name();
    probe::cache_made(number, shape.size, name.as_ptr().addr(), name.len());
    Ok(id)
}

/// Prepares the words of the caches below a number, and of all size classes: the fast paths of
/// malloc do not test whether a class exists.
fn prepare_words(numbers: usize) {
    let _started = Access::get();
    let numbers = numbers.max(NAMED_FIRST_HARDENED);
    slots::prepare(Region::CACHES, 2 * numbers);
    slots::prepare(Region::DEFERRED, numbers);
}

impl Registry {
    /// Starts the window, once. False when address space is out; may be tried again.
    fn start(&mut self) -> bool {
        if !self.started && try_start() && window::start() {
            checking::start();
            self.started = true;
            chunk::CHUNKS.lock().huge_pages = match options::HUGE_PAGES.word() {
                "never" => HugePages::Never,
                "always" => HugePages::Always,
                _ => HugePages::Auto,
            };
            limit::start_option();
            profile::start_option();
            if profile::rate() != 0 {
                profile::large::observe_percpu();
            }
            trap::start_option();
        }
        self.started
    }

    /// True when a cache with this number exists.
    pub(crate) fn has(&self, id: CacheId) -> bool {
        let number = usize::from(id.number());
        self.existing.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// A cache is created or removed.
    fn flip(&mut self, id: CacheId) {
        let number = usize::from(id.number());
        self.existing[number / 64] ^= 1 << (number % 64);
    }
}

/// Starts the window, and determines the mode of the process. False when address space is out.
pub(crate) fn start() -> bool {
    REGISTRY.lock().start()
}

/// The results of `read` for each cache that exists, one after the other. A cache may be created or
/// destroyed between two calls, but not during one, which runs under the registry lock.
pub(crate) fn map_existing<R>(read: impl Fn(CacheId) -> R) -> impl Iterator<Item = R> {
    all_ids().filter_map(move |id| if_existing(id, &read))
}

/// The result of `read` for a cache, under the registry lock, if the cache exists.
pub(crate) fn if_existing<R>(id: CacheId, read: impl FnOnce(CacheId) -> R) -> Option<R> {
    let registry = REGISTRY.lock();
    registry.has(id).then(|| read(id))
}

/// Removes a cache if `empty` succeeds, which runs under the registry lock.
pub(crate) fn remove_if<E>(id: CacheId, empty: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let mut registry = REGISTRY.lock();
    empty()?;
    registry.flip(id);
    // SAFETY: the registry lock is held; no object is allocated, and the caller was the last
    // user.
    unsafe { id.set_shape(Shape::NONE) };
    Ok(())
}

/// Every number that has ever been used. Without the registry lock, new ones may be missing.
pub(crate) fn all_ids() -> impl Iterator<Item = CacheId> {
    (0..numbers_used()).map(|number| CacheId::new(number as u16))
}

/// Numbers from this on have never been used. Without the registry lock it may grow.
pub(crate) fn numbers_used() -> usize {
    NUMBERS_USED.get()
}
