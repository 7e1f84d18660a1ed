//! By which calls blocks were freed, in debug mode: the stacks of the last 65,536 frees of blocks
//! of malloc, in a ring. Used by the heap, and by reports of writes to freed objects.
//!
//! Without a lock: a report may come from anywhere. An entry that is being replaced reads as empty,
//! or in a rare case has addresses of two stacks.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::stack::{self, Frame};
use sheaves_sys::symbol::Addresses;
use sheaves_sys::{map, report};

const ENTRIES: usize = 1 << 16;
/// The most return addresses of a stack.
const FRAMES: usize = 15;

/// A free. All zeros where there was none yet.
#[repr(C)]
struct Entry {
    /// What was freed; 0 while the entry is written.
    address: AtomicUsize,
    /// Return addresses, the innermost first, and zeros.
    frames: [AtomicUsize; FRAMES],
}

/// Address of the entries; 0 before the first free.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// Frees so far.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The entries; `None` before the first free, and when memory is out.
fn entries() -> Option<&'static [Entry; ENTRIES]> {
    // Relaxed: all access to the mapping, which stays, is atomic.
    let base = BASE.load(Ordering::Relaxed);
    // SAFETY: the mapping has that many entries; zeros are entries.
    (base != 0).then(|| unsafe { &*with_exposed_provenance::<[Entry; ENTRIES]>(base) })
}

#[cold]
fn make() -> Option<&'static [Entry; ENTRIES]> {
    let bytes = size_of::<[Entry; ENTRIES]>();
    let base = map::anywhere(bytes)?;
    // Relaxed, both: as above.
    if BASE.compare_exchange(0, base, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        // SAFETY: mapped just now, and known to no other thread.
        unsafe { map::unmap(base, bytes) };
    }
    entries()
}

/// Notes that a block is freed by the caller of a function.
pub fn note(address: usize, frame: Frame) {
    let Some(entries) = entries().or_else(make) else { return };
    let mut addresses = [0; FRAMES];
    let count = stack::walk(frame, &mut addresses);
    addresses[count..].fill(0);
    // Relaxed: each free gets an entry of its own.
    let entry = &entries[COUNT.fetch_add(1, Ordering::Relaxed) % ENTRIES];
    // Relaxed, all: see the head of this file.
    entry.address.store(0, Ordering::Relaxed);
    for (place, address) in entry.frames.iter().zip(addresses) {
        place.store(address, Ordering::Relaxed);
    }
    entry.address.store(address, Ordering::Relaxed);
}

/// Prints a line on the last free of a block that begins in a range, if it is known.
#[cold]
pub fn report(begin: usize, end: usize) {
    let Some(entries) = entries() else { return };
    // Relaxed, all: as above.
    let count = COUNT.load(Ordering::Relaxed);
    let newest_first = (0..count.min(ENTRIES)).map(|age| &entries[(count - 1 - age) % ENTRIES]);
    for entry in newest_first {
        let address = entry.address.load(Ordering::Relaxed);
        if (begin..end).contains(&address) {
            let frames = entry.frames.each_ref().map(|frame| frame.load(Ordering::Relaxed));
            let used = frames.iter().position(|frame| *frame == 0).unwrap_or(FRAMES);
            let caller = Addresses(&frames[..used]);
            report::report(format_args!("block {address:#x} was freed last by {caller}"));
            return;
        }
    }
}
