//! Per-CPU caches of free objects by size class, so that common calls take no lock.
//!
//! They work like SLUB's per-CPU sheaves (Linux 6.18) and Bonwick's magazines (2001). A class has
//! one word in every block, which holds the cursor of a sheaf of free objects. An entry is the
//! offset of an object, which is even. Allocation is a `pop`, freeing a `push`. An empty sheaf gets
//! a batch from the allocator, and a full one returns its older half. Each takes the lock once.
//!
//! | word | meaning | transitions |
//! |---|---|---|
//! | vacant | the slot has no sheaf of this class | -> cursor, by the thread that installs one |
//! | cursor | the slot's sheaf, and how many objects are in it | by `pop` and `push`; -> vacant |
//!
//! A sheaf belongs to one word, or to the thread that exchanged its cursor out of a word. So a
//! thread may change slots between any two lines here: what it holds in between is its own.
//!
//! Objects in a cache are zero in every row.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::dynamic::Offset;
use crate::engine::{self, Access, Mode, cmp_store, load, pop_slow, push_slow};
use crate::memory::Error;
use crate::memory::class::{BATCH_MAX, CLASSES, Class};
use crate::memory::pool::Sheaf;
use crate::memory::state::{self, MEMORY};
use crate::sheaf::{BOOTSTRAP, OBJECTS_MAX, VACANT, is_full, is_sentinel};
use crate::slots::{self, Attached, attach};
use crate::{area::Word, sheaf};

/// How often a slow path starts over after other threads changed the slot's word.
const ATTEMPTS: u32 = 16;
/// Number of objects that a full sheaf returns to the allocator.
const SURPLUS: usize = OBJECTS_MAX / 2;

/// True once the words are prepared in every block, present and future.
static OPEN: AtomicBool = AtomicBool::new(false);

/// Called under the memory lock, when the words are prepared.
pub(super) fn open() {
    // Release pairs with the Acquire in `is_open`.
    OPEN.store(true, Ordering::Release);
}

#[inline]
pub(super) fn is_open() -> bool {
    // Acquire pairs with the Release in `open`.
    OPEN.load(Ordering::Acquire)
}

/// Pops an object from the current slot's sheaf.
#[inline]
pub(super) fn pop(class: Class) -> Option<usize> {
    if !is_open() {
        return None;
    }
    // SAFETY: the caches are open, so the engine has started.
    let object = engine::pop(unsafe { Access::of_started() }, class.word());
    (!is_sentinel(object)).then_some(object)
}

/// Pushes an object to the current slot's sheaf; false when the sheaf is full.
///
/// # Safety
/// An object of this class, zero in every row, that the caller owns. After true, the sheaf owns it.
#[inline]
pub(super) unsafe fn push(class: Class, offset: usize) -> bool {
    // SAFETY: an object exists, so the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: offsets are even; the caller gives the object up.
    unsafe { engine::push(access, class.word(), offset) }
}

/// Allocates an object when the current slot's sheaf has none.
#[cold]
#[inline(never)]
pub(super) fn take_slow(class: Class) -> Result<usize, Error> {
    if is_open() && attach() == Attached::Yes {
        let object = pop_slow(class.word());
        if !is_sentinel(object) {
            return Ok(object);
        }
    }
    match refill(class) {
        Err(Error::Exhausted | Error::NoMemory) => state::take_uncached(class.shape()),
        other => other,
    }
}

/// Takes a batch from the allocator: returns the first object and caches the others.
fn refill(class: Class) -> Result<usize, Error> {
    let mut batch = [Offset::new(0); BATCH_MAX];
    let (word, mut sheaf) = (class.word(), None);
    let count = {
        let mut memory = MEMORY.lock();
        let count = memory.take_many(class.shape(), &mut batch[..class.batch()])?;
        if load(word) == VACANT.get() {
            sheaf = memory.sheaves.take();
        }
        count
    };
    // In reverse, so that the lowest offsets are popped first.
    let mut rest = [0; BATCH_MAX];
    let rest = &mut rest[..count - 1];
    for (entry, offset) in rest.iter_mut().zip(batch[1..count].iter().rev()) {
        *entry = offset.bytes();
    }
    stock(word, sheaf, rest);
    Ok(batch[0].bytes())
}

/// Pushes objects from the allocator to the current slot's sheaf, or to `sheaf` if it can install
/// that. Objects that do not fit are returned to the allocator.
fn stock(word: Word, sheaf: Option<Sheaf>, objects: &[usize]) {
    if let Some(mut sheaf) = sheaf {
        sheaf.entries()[1..=objects.len()].copy_from_slice(objects);
        match install(word, sheaf, objects.len()) {
            Ok(()) => return,
            Err(sheaf) => MEMORY.lock().sheaves.put(sheaf),
        }
    }
    let mut rest = objects;
    while let [object, others @ ..] = rest {
        // SAFETY: the objects were just allocated for this class.
        if !unsafe { push_slow(word, *object) } {
            MEMORY.lock().give(rest);
            return;
        }
        rest = others;
    }
}

/// Installs an owned sheaf with `count` objects, in entries 1 and up, in a vacant word of the
/// current slot; otherwise returns it unchanged.
fn install(word: Word, sheaf: Sheaf, count: usize) -> Result<(), Sheaf> {
    let address = sheaf.address();
    let cursor = sheaf.into_cursor(count);
    // SAFETY: `cursor` is not the bootstrap cursor; this call owns the sheaf.
    if unsafe { cmp_store(word, VACANT.get(), cursor) } {
        return Ok(());
    }
    // SAFETY: the sheaf was not installed, so it still belongs to this call.
    Err(unsafe { Sheaf::at(address) })
}

/// Frees an object when the current slot's sheaf is full.
///
/// The object is of this class and zero in every row, and the caller gives it up.
#[cold]
#[inline(never)]
pub(super) fn give_slow(class: Class, offset: usize) {
    let word = class.word();
    for _ in 0..ATTEMPTS {
        if attach() == Attached::No {
            break;
        }
        // SAFETY: the caller gives the object up.
        if unsafe { push_slow(word, offset) } {
            return;
        }
        let cursor = load(word);
        if cursor == VACANT.get() {
            let Some(mut sheaf) = MEMORY.lock().sheaves.take() else { break };
            sheaf.entries()[1] = offset;
            match install(word, sheaf, 1) {
                Ok(()) => return,
                Err(sheaf) => MEMORY.lock().sheaves.put(sheaf),
            }
        } else if cursor == BOOTSTRAP.get() {
            // A drain has detached the block, and `attach` waits for it; or all virtual slots are
            // busy.
            if engine::mode() == Mode::Portable {
                break;
            }
        } else if is_full(cursor) {
            // SAFETY: `cursor` is not the bootstrap cursor; VACANT is a valid cursor for any word.
            if unsafe { cmp_store(word, cursor, VACANT.get()) } {
                // SAFETY: by the exchange this call owns the sheaf.
                relieve(word, unsafe { Sheaf::of_cursor(cursor) }, offset);
                return;
            }
        }
    }
    MEMORY.lock().give(&[offset]);
}

/// Returns the older half of a full sheaf to the allocator, adds an object to the sheaf and
/// installs it in the current slot again.
fn relieve(word: Word, mut sheaf: Sheaf, offset: usize) {
    const KEPT: usize = OBJECTS_MAX - SURPLUS;
    let entries = sheaf.entries();
    MEMORY.lock().give(&entries[1..=SURPLUS]);
    entries.copy_within(SURPLUS + 1.., 1);
    entries[KEPT + 1] = offset;
    if let Err(mut sheaf) = install(word, sheaf, KEPT + 1) {
        // Another thread has installed a sheaf meanwhile.
        let mut memory = MEMORY.lock();
        memory.give(&sheaf.entries()[1..=KEPT + 1]);
        memory.sheaves.put(sheaf);
    }
}

/// Returns all objects in the caches of all slots to the allocator. True when there were any.
#[cold]
pub(super) fn drain() -> bool {
    if !is_open() {
        return false;
    }
    let words: [Word; CLASSES] = core::array::from_fn(|index| Class::at(index).word());
    let mut list = List { first: 0 };
    // Slots that cannot be drained (no fence, no affinity) keep their objects.
    let _ = slots::drain(&words, &mut |_, cursor| {
        // SAFETY: the drain has taken the cursor out of its word.
        list.add(unsafe { Sheaf::of_cursor(cursor) }, cursor);
    });
    let mut found = false;
    while let Some((mut sheaf, count)) = list.next() {
        let mut memory = MEMORY.lock();
        memory.give(&sheaf.entries()[1..=count]);
        memory.sheaves.put(sheaf);
        found |= count > 0;
    }
    found
}

/// Sheaves that a drain has taken, linked by entry 0: the address of the next sheaf, with its count
/// of objects in the low bits, which are 0 in addresses of sheaves.
struct List {
    first: usize,
}

impl List {
    fn add(&mut self, mut sheaf: Sheaf, cursor: usize) {
        let count = sheaf.count(cursor);
        sheaf.entries()[0] = self.first;
        self.first = sheaf.address() | count;
    }

    fn next(&mut self) -> Option<(Sheaf, usize)> {
        if self.first == 0 {
            return None;
        }
        let count = self.first % sheaf::SHEAF_BYTES;
        // SAFETY: the list owns its sheaves.
        let mut sheaf = unsafe { Sheaf::at(sheaf::base(self.first)) };
        self.first = sheaf.entries()[0];
        Some((sheaf, count))
    }
}

/// Approximate bytes of free objects in the caches of all slots.
pub(super) fn cached_bytes() -> usize {
    if !is_open() {
        return 0;
    }
    let words: [Word; CLASSES] = core::array::from_fn(|index| Class::at(index).word());
    let mut bytes = 0;
    slots::observe(&words, &mut |index, cursor| {
        bytes += cursor % sheaf::SHEAF_BYTES / 8 * Class::at(index).size();
    });
    bytes
}

const _: () = assert!(OBJECTS_MAX < sheaf::SHEAF_BYTES);
