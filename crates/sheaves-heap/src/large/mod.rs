//! Blocks above the sizes or alignments of all classes: mappings of their own. Those of up to 64
//! MiB are kept for some time after their blocks are freed, see [`idle`].
//!
//! The largest class has 1 MiB, in a hardened process less: see `classes::class_bytes_max`.
//!
//! A table under a lock records them.
//!
//! The kernel refuses to unmap a block between two others when the process has as many mappings as
//! it may have (`vm.max_map_count`). The table keeps such a range, whose pages are discarded and
//! read as zeros, for the next block that fits, and offers it to the kernel again once the kernel
//! unmaps another one. Likewise what is beside a block for its alignment. In a hardened process no
//! block gets such a range, and smaller blocks are here, too: see `hardened`.

pub(crate) mod hardened;
mod idle;
mod room;
mod sizes;
mod table;

use sheaves_rcu::internal::{self, keeper};
use sheaves_slab::internal::checking::is_hardened;
use sheaves_slab::internal::chunk;
use sheaves_slab::internal::sampling::{self, AllocRequest};
use sheaves_sys::lock::Held;
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, map, probe};

use idle::{Idle, Pages};

use room::{give_back, map_aligned, return_unused};
pub(crate) use table::TABLE;
use table::{Entry, KEPT, Table};

/// A block (0 when memory is out), and whether it reads as zeros.
// Otherwise its caller would save registers for it where the block is of a class.
#[inline(never)]
pub(crate) fn alloc(size: usize, align: usize, request: &AllocRequest) -> (usize, bool) {
    let block = alloc_unlimited(size, align);
    if block.0 != 0 {
        probe::large_alloc(block.0, size);
        sampling::large::note_alloc(block.0, request);
    }
    chunk::do_due_after_alloc();
    block
}

fn alloc_unlimited(size: usize, align: usize) -> (usize, bool) {
    const NONE: (usize, bool) = (0, false);
    if is_hardened() {
        let mut address = hardened::alloc(size, align);
        if address == 0 {
            // What was freed takes address space, which may be limited.
            trim(0);
            address = hardened::alloc(size, align);
        }
        if address == 0 && return_unused(size) {
            address = hardened::alloc(size, align);
        }
        return (address, true);
    }
    let page = map::page_bytes();
    let Some(bytes) = size.max(1).checked_next_multiple_of(page) else { return NONE };
    if let Some(address) = alloc_idle(|idle| idle.take(bytes, align)) {
        return (address, false);
    }
    if let Some(address) = alloc_kept(bytes, align, 1) {
        return (address, true);
    }
    let mut mapped = map_aligned(bytes, align);
    if mapped.is_none() {
        if let Some(address) = alloc_kept(bytes, align, usize::MAX) {
            return (address, true);
        }
        mapped = return_unused(bytes).then(|| map_aligned(bytes, align)).flatten();
    }
    let Some(address) = mapped else { return NONE };
    let block = Entry { address, bytes };
    if !TABLE.lock().insert(block) {
        give_back(block);
        return NONE;
    }
    (address, true)
}

/// A block that has room to grow in an idle range, if there is one; else 0.
pub(crate) fn alloc_to_grow(size: usize, request: &AllocRequest) -> usize {
    let bytes = size.next_multiple_of(map::page_bytes());
    let Some(address) = alloc_idle(|idle| idle.take_of_largest(bytes)) else { return 0 };
    probe::large_alloc(address, size);
    sampling::large::note_alloc(address, request);
    address
}

/// A block in an idle range.
fn alloc_idle(take: impl FnOnce(&mut Idle) -> Option<Pages>) -> Option<usize> {
    let mut table = TABLE.lock();
    let (address, bytes) = take(&mut table.idle)?;
    if !table.insert(Entry { address, bytes }) {
        // There was room for it just now.
        let _none = table.idle.put(address, bytes, clock::coarse_ms());
        return None;
    }
    Some(address)
}

/// A block in a kept range that is at most twice as large as necessary.
fn alloc_kept(bytes: usize, align: usize, pieces: usize) -> Option<usize> {
    let fits = |range: Entry| {
        range.address.is_multiple_of(align) && range.bytes >= bytes && range.bytes / 2 <= bytes
    };
    let (mut table, range) = take_kept(pieces, fits)?;
    table.in_doubt -= 1;
    table.store_block(range);
    Some(range.address)
}

/// Takes a kept range that fits, which is in doubt then. Searches `pieces` of the table at most and
/// gives the lock up in between.
fn take_kept(
    mut pieces: usize,
    fits: impl Fn(Entry) -> bool,
) -> Option<(Held<'static, Table>, Entry)> {
    while pieces != 0 {
        let mut table = TABLE.lock();
        pieces = pieces.min(table.kept_pieces()).saturating_sub(1);
        if let Some(range) = table.take_kept(&fits) {
            return Some((table, range));
        }
    }
    None
}

/// Bytes of the block that starts at an address.
pub(crate) fn bytes_of(address: usize) -> Option<usize> {
    let mut table = TABLE.lock();
    let index = table.entries.find(address)?;
    Some(table.entries.entry(index).bytes)
}

/// True when an address is inside a block. Visits every block: for debug mode.
pub(crate) fn contains(address: usize) -> bool {
    let mut table = TABLE.lock();
    (0..table.entries.capacity()).any(|index| {
        let entry = *table.entries.entry(index);
        entry.address & KEPT == 0 && (entry.address..entry.address + entry.bytes).contains(&address)
    })
}

/// Frees a block; false when none starts at the address.
#[must_use]
pub(crate) fn free(address: usize) -> bool {
    let mut table = TABLE.lock();
    let Some(index) = table.entries.find(address) else { return false };
    sampling::close(address);
    let range = table.remove(index);
    probe::large_free(range.address, range.bytes);
    if is_hardened() {
        table.note_bytes();
        drop(table);
        if let Some((idle, cleared)) = hardened::retire(range) {
            let_idle(TABLE.lock(), idle, cleared);
        }
    } else {
        let_idle(table, range, 0);
    }
    true
}

/// Makes a range idle, and arms the keeper or unmaps what is too much without one.
fn let_idle(mut table: Held<'_, Table>, range: Entry, cleared: usize) {
    let mut surplus = table.let_idle(range, cleared);
    let idle_bytes = table.idle.bytes();
    drop(table);
    while let Some(range) = surplus {
        unmap_or_keep(range);
        surplus = TABLE.lock().surplus();
    }
    if idle_bytes >= MUCH_BYTES {
        chunk::note_unused(idle_bytes);
        chunk::do_due_after_free();
    }
}

/// Fewer idle bytes are not worth a keeper.
const MUCH_BYTES: usize = 1 << 20;

/// Idle ranges as `sheaves-rcu` sees them.
struct Large;

/// Makes them known, when the heap starts.
pub(crate) fn register() {
    internal::register(&Large);
}

impl internal::LayerAbove for Large {
    fn tick(&self, _reach: Reach) -> bool {
        let Some(decay_ms) = keeper::decay_ms() else { return false };
        let before_ms = clock::coarse_ms().saturating_sub(decay_ms);
        loop {
            let mut table = TABLE.lock();
            let Some(range) = table.surplus_of(usize::MAX, before_ms) else {
                return table.idle.bytes() != 0;
            };
            drop(table);
            unmap_or_keep(range);
        }
    }

    fn trim(&self) {
        trim(0);
    }

    fn name(&self) -> &'static str {
        "large"
    }
}

/// Unmaps idle ranges, the oldest first, until at most `keep_bytes` are left, and offers those that
/// are kept to the kernel again. Returns how many bytes of idle ranges it unmapped.
pub(crate) fn trim(keep_bytes: usize) -> usize {
    if is_hardened() {
        hardened::unmap_all();
    }
    let mut bytes = 0;
    loop {
        let mut table = TABLE.lock();
        let oldest = if table.idle.bytes() > keep_bytes { table.idle.take_oldest() } else { None };
        let Some(range) = oldest.map(|pages| table.doubt(pages)) else { break };
        drop(table);
        unmap_or_keep(range);
        bytes += range.bytes;
    }
    while let Some((table, range)) = take_kept(usize::MAX, |_| true) {
        drop(table);
        if !unmap_or_keep(range) {
            break;
        }
    }
    bytes
}

/// Unmaps a range that is in doubt, then kept ones that one search finds for as long as the kernel
/// allows it. False if it did not.
fn unmap_or_keep(mut range: Entry) -> bool {
    loop {
        // SAFETY: removed from the table, so ours alone; it is not used any more.
        let is_unmapped = unsafe { map::unmap(range.address, range.bytes) };
        // No block of a hardened process gets the range, whose ends are inaccessible.
        if !is_unmapped && !is_hardened() {
            // Whether or not the kernel can discard the pages, they read as zeros then.
            // SAFETY: as above, and still mapped.
            unsafe { map::discard(range.address, range.bytes) };
        }
        probe::purge(range.address, range.bytes);
        let mut table = TABLE.lock();
        table.in_doubt -= 1;
        if !is_unmapped {
            table.keep(range);
            return false;
        }
        let Some(next) = table.take_kept(|_| true) else { return true };
        range = next;
    }
}

/// True if a block keeps its address and its pages with a new size, as far as is known without the
/// lock; false where the resize may change a sample.
#[inline]
pub(crate) fn stays(address: usize, size: usize) -> bool {
    // As in `resize_in_table`: what is less than `TAIL_BYTES_MIN` more than enough, in whole pages.
    let rest = sizes::bytes_of(address).checked_sub(size);
    rest.is_some_and(|rest| rest < TAIL_BYTES_MIN) && !sampling::large::may_note()
}

/// Resizes a block, if that needs no copy; 0, with the block unchanged, when it does. `None` when
/// none starts at the address.
///
/// A block grows into the idle range after it, shrinks by what becomes an idle range, or has its
/// pages moved by the kernel. If an idle range elsewhere is large enough, the result is 0: a copy
/// costs less than the page faults of new pages.
pub(crate) fn resize(address: usize, size: usize, request: &AllocRequest) -> Option<usize> {
    let Resized { address, may_be_sample, old_bytes } = resize_in_table(address, size, request)?;
    if may_be_sample {
        sampling::large::note_growth(address, old_bytes, request);
    }
    Some(address)
}

/// What [`resize`] has done under the lock.
struct Resized {
    address: usize,
    may_be_sample: bool,
    old_bytes: usize,
}

fn resize_in_table(address: usize, size: usize, request: &AllocRequest) -> Option<Resized> {
    let page = map::page_bytes();
    let bytes = size.next_multiple_of(page);
    // Held over the system call: otherwise another thread could get the old address from the kernel
    // and look it up before the entry has moved.
    let mut table = TABLE.lock();
    let index = table.entries.find(address)?;
    let old_bytes = table.entries.entry(index).bytes;
    let to = |new: usize| {
        let may_be_sample = sampling::large::note_resize(address, new, old_bytes, request);
        Some(Resized { address: new, may_be_sample, old_bytes })
    };
    let unchanged = Some(Resized { address: 0, may_be_sample: false, old_bytes });
    if is_hardened() {
        return resize_hardened(table, index, size, to).or(unchanged);
    }
    if bytes <= old_bytes {
        let resized = to(address);
        if old_bytes - bytes >= TAIL_BYTES_MIN {
            table.resize(index, bytes);
            let_idle(table, Entry { address: address + bytes, bytes: old_bytes - bytes }, 0);
        } else {
            sizes::note(address, old_bytes);
        }
        return resized;
    }
    if table.idle.extend(address + old_bytes, bytes - old_bytes) {
        table.resize(index, bytes);
        return to(address);
    }
    if table.idle.has(bytes, page) {
        return unchanged;
    }
    // SAFETY: the entry proves that the mapping is ours and how large it is; the caller uses only
    // the returned address.
    let moved = unsafe { map::resize(address, old_bytes, bytes, true) };
    let Some(moved) = moved else { return unchanged };
    table.move_block(index, Entry { address: moved, bytes });
    to(moved)
}

/// [`resize`] in a hardened process. A block that shrinks to no less than half keeps its place.
fn resize_hardened(
    mut table: Held<'_, Table>,
    index: usize,
    size: usize,
    to: impl Fn(usize) -> Option<Resized>,
) -> Option<Resized> {
    let old = *table.entries.entry(index);
    if size < old.bytes / 2 {
        return None;
    }
    if size <= old.bytes {
        let resized = to(old.address);
        drop(table);
        discard_tail(old.address + size, old.address + old.bytes);
        return resized;
    }
    let new = hardened::grow(old, size, table.count)?;
    table.move_block(index, new);
    let resized = to(new.address);
    drop(table);
    hardened::retire_moved(old);
    resized
}

/// Fewer bytes at the end of a block that was shortened are not worth a system call.
pub(crate) const TAIL_BYTES_MIN: usize = 64 << 10;

/// Returns the whole pages of a range to the kernel, if that is worth it: the end of a block that
/// was shortened and keeps it. They read as zeros.
pub(crate) fn discard_tail(start: usize, end: usize) {
    let page = map::page_bytes();
    let (start, end) = (start.next_multiple_of(page), end / page * page);
    if end >= start + TAIL_BYTES_MIN {
        // SAFETY: the caller shortens the block, so nothing behind its new size is live.
        unsafe { map::discard(start, end - start) };
        probe::purge(start, end - start);
    }
}

/// What there is of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) blocks: usize,
    /// The sum of the blocks.
    pub(crate) bytes: usize,
    pub(crate) idle_bytes: usize,
    /// Bytes of idle ranges that were returned to the kernel so far.
    pub(crate) returned_bytes: u64,
}

pub(crate) fn totals() -> Totals {
    let table = TABLE.lock();
    Totals {
        blocks: table.count,
        bytes: table.bytes,
        idle_bytes: table.idle.bytes(),
        returned_bytes: table.returned_bytes,
    }
}
