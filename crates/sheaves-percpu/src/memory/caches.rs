//! Per-CPU caches of free objects by size class, so that common calls take no lock.
//!
//! A class has one word in every block, which holds the cursor of a sheaf of free objects. An entry
//! is the offset of an object, which is even. Allocation is a `pop`, freeing a `push`. An empty
//! sheaf gets a batch from the allocator, and a full one flushes its older half.
//!
//! | word | meaning | transitions |
//! |---|---|---|
//! | vacant | the slot has no sheaf of this class | -> cursor, by the thread that installs one |
//! | cursor | the slot's sheaf, and how many objects are in it | by `pop` and `push`; -> vacant |
//!
//! A sheaf belongs to one word, or to the thread that exchanged its cursor out of a word. So a
//! thread may move to another slot anywhere here. Objects in a cache are zero in every row.

use sheaves_sys::tsan;

use crate::dynamic::{Error, Shape};
use crate::engine::{self, Access, EngineMode, cmp_store, load, pop_slow, push_slow};
use crate::memory::access::ATTEMPTS;
use crate::memory::class::{BATCH_MAX, CLASSES, Class};
use crate::memory::state::{self, MEMORY, is_open};
use crate::sheaf::{Cursor, Sheaf};
use crate::slots::{self, attach};
use crate::word::Word;
use sheaves_sys::membarrier::Reach;

/// Number of objects that a full sheaf flushes.
const SURPLUS: usize = Sheaf::OBJECTS_MAX / 2;

#[inline]
pub(super) fn pop(class: Class) -> Option<usize> {
    if !is_open() {
        return None;
    }
    // SAFETY: the caches are open, so the engine has started.
    engine::pop(unsafe { Access::of_started() }, class.word())
}

/// Pushes an object to the current slot's sheaf; false when the sheaf is full.
///
/// # Safety
/// The caller owns the object, of this class and zero in every row. After true, the sheaf owns it.
#[inline]
pub(super) unsafe fn push(class: Class, offset: usize) -> bool {
    // SAFETY: an object exists, so the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: offsets are even; the caller gives the object up.
    unsafe { engine::push(access, class.word(), offset) }
}

/// Allocates an object when the current slot's sheaf has none. Starts the engine.
#[cold]
#[inline(never)]
pub(super) fn alloc_slow(class: Class) -> Result<usize, Error> {
    Access::get();
    if is_open()
        && attach()
        && let Some(object) = pop_slow(class.word())
    {
        return Ok(object);
    }
    match refill(class) {
        Err(Error::Exhausted | Error::NoMemory) => alloc_uncached(class.shape()),
        other => other,
    }
}

/// Allocates an object from the allocator. When the rows are exhausted, drains the caches and tries
/// again. Starts the engine.
#[cold]
pub(super) fn alloc_uncached(shape: Shape) -> Result<usize, Error> {
    Access::get();
    let mut offset = [0];
    let mut result = MEMORY.lock().alloc(shape, &mut offset);
    if matches!(result, Err(Error::Exhausted | Error::NoMemory)) && drain() {
        result = MEMORY.lock().alloc(shape, &mut offset);
    }
    result.map(|_| offset[0])
}

/// Takes a batch from the allocator: returns the first object and caches the others.
fn refill(class: Class) -> Result<usize, Error> {
    let mut batch = [0; BATCH_MAX];
    // One object where there is no block to cache others in.
    let wanted = if attach() { class.batch() } else { 1 };
    let count = MEMORY.lock().alloc(class.shape(), &mut batch[..wanted])?;
    // In reverse, so that the lowest offsets are popped first.
    for offset in batch[1..count].iter().rev() {
        free_slow(class, *offset);
    }
    Ok(batch[0])
}

/// Stores the cursor of an owned sheaf in a vacant word of the current slot. False when it is not
/// vacant; then the sheaf is still the caller's.
fn install(word: Word, cursor: Cursor) -> bool {
    // SAFETY: VACANT is not the bootstrap cursor; the caller owns the sheaf.
    unsafe { cmp_store(word, Cursor::VACANT, cursor) }
}

/// Puts an owned sheaf back into the pool, where all sheaves of the caches are from.
fn put(sheaf: Sheaf) {
    // SAFETY: the caller owns the sheaf, and gives it up.
    unsafe { MEMORY.lock().put_sheaf(sheaf) };
}

/// Puts an object, of this class and zero in every row, into the current slot's sheaf; a full sheaf
/// first flushes its older half.
#[cold]
#[inline(never)]
pub(super) fn free_slow(class: Class, offset: usize) {
    let word = class.word();
    for _ in 0..ATTEMPTS {
        if !attach() {
            break;
        }
        // SAFETY: the caller gives the object up.
        if unsafe { push_slow(word, offset) } {
            return;
        }
        let cursor = load(word);
        if cursor == Cursor::VACANT {
            let Some(sheaf) = MEMORY.lock().take_sheaf() else { break };
            // SAFETY: this call owns the sheaf, which is empty.
            if install(word, unsafe { sheaf.cursor(0).push(offset) }) {
                return;
            }
            put(sheaf);
        } else if cursor == Cursor::BOOTSTRAP {
            // A drain has detached the block, and the next `attach` waits for the drain. Or, in the
            // portable engine, the word is checked out in all slots.
            if engine::mode() == EngineMode::Portable {
                break;
            }
        } else if cursor.is_full() {
            // SAFETY: `cursor` is not the bootstrap cursor.
            if unsafe { cmp_store(word, cursor, Cursor::VACANT) } {
                flush_half(word, cursor.sheaf(), offset);
                return;
            }
        }
    }
    state::free(&mut [offset]);
}

/// Flushes the older half of an owned, full sheaf to the allocator, adds an object to the sheaf and
/// installs it in the current slot again.
fn flush_half(word: Word, sheaf: Sheaf, offset: usize) {
    const KEPT: usize = Sheaf::OBJECTS_MAX - SURPLUS;
    // SAFETY: the caller owns the sheaf, and these are the only references to its entries.
    let objects = unsafe { sheaf.full().objects() };
    state::free(&mut objects[..SURPLUS]);
    tsan::unseen(|| objects.copy_within(SURPLUS.., 0));
    objects[KEPT] = offset;
    if !install(word, sheaf.cursor(KEPT + 1)) {
        // Another thread has installed a sheaf meanwhile.
        state::free(&mut objects[..=KEPT]);
        put(sheaf);
    }
}

/// Flushes the caches of all slots to the allocator. True when there were any objects.
#[cold]
pub(super) fn drain() -> bool {
    if !is_open() {
        return false;
    }
    let words: [Word; CLASSES] = core::array::from_fn(|index| Class::at(index).word());
    // Slots that cannot be drained (no fence, no affinity) keep their objects.
    let (taken, _is_complete) = slots::take(&words, Reach::Interrupts, slots::ALL);
    let mut found = false;
    for (_, cursor) in taken {
        // SAFETY: by the drain the sheaf is this call's, and there is no other reference.
        let objects = unsafe { cursor.objects() };
        state::free(objects);
        found |= !objects.is_empty();
        put(cursor.sheaf());
    }
    found
}
