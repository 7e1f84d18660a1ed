//! `bulk`: objects are noted in pages of pointers, one page for each size, and freed a page at a
//! time. Nothing is written into them.

use core::alloc::Layout;
use core::mem::{MaybeUninit, size_of};
use core::ptr::NonNull;

use sheaves::raw::Cache;

use super::monitor::{Cpu, Cpus, Form};
use super::{SIZES, allocate};
use crate::contender::ledger;
use crate::failure::out_of_memory;

const PAGE_BYTES: usize = 4096;
/// What precedes the pointers.
const HEADER_BYTES: usize = size_of::<Option<Block>>() + size_of::<usize>();
/// Pointers of a page.
const CAPACITY: usize = (PAGE_BYTES - HEADER_BYTES) / size_of::<NonNull<u8>>();
/// Pages that a CPU keeps for the next ones.
const SPARE_MAX: usize = 64;

/// A page of pointers.
#[repr(C)]
pub(super) struct Page {
    next: Option<Block>,
    count: usize,
    objects: [MaybeUninit<NonNull<u8>>; CAPACITY],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES && CAPACITY == 510);

/// A page that is owned.
pub(super) struct Block(NonNull<Page>);

// SAFETY: whoever has the block has the page and what it points to.
unsafe impl Send for Block {}

impl Block {
    const LAYOUT: Layout = match Layout::from_size_align(PAGE_BYTES, PAGE_BYTES) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    };

    fn new() -> Block {
        // SAFETY: the size is not 0.
        let page = unsafe { std::alloc::alloc(Block::LAYOUT) }.cast::<Page>();
        let Some(page) = NonNull::new(page) else { out_of_memory() };
        let empty = Page { next: None, count: 0, objects: [MaybeUninit::uninit(); CAPACITY] };
        // SAFETY: fresh, and of that layout.
        unsafe { page.write(empty) };
        Block(page)
    }

    #[inline]
    fn page(&mut self) -> &mut Page {
        // SAFETY: whoever has the block has the page.
        unsafe { self.0.as_mut() }
    }

    fn take_next(&mut self) -> Option<Block> {
        self.page().next.take()
    }

    /// Makes it empty, in front of another.
    fn reset(&mut self, next: Option<Block>) {
        self.page().next = next;
        self.page().count = 0;
    }

    /// Notes an object; false when there is no room.
    #[inline]
    fn push(&mut self, object: NonNull<u8>) -> bool {
        let page = self.page();
        let Some(place) = page.objects.get_mut(page.count) else { return false };
        place.write(object);
        page.count += 1;
        true
    }

    fn objects(&mut self) -> &[NonNull<u8>] {
        let page = self.page();
        // SAFETY: so many were written.
        unsafe { page.objects[..page.count].assume_init_ref() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // One after the other: a list is long.
        let mut next = self.take_next();
        while let Some(mut block) = next {
            next = block.take_next();
        }
        // SAFETY: from `new`, and given up here.
        unsafe { std::alloc::dealloc(self.0.as_ptr().cast(), Block::LAYOUT) };
    }
}

/// Pages of a size, the youngest first, and empty ones.
#[derive(Default)]
pub(super) struct Collected {
    pages: [Option<Block>; SIZES.len()],
    spare: Option<Block>,
    spares: usize,
}

impl Collected {
    #[inline]
    fn add(&mut self, class: usize, object: NonNull<u8>) {
        let has_room = self.pages[class].as_mut().is_some_and(|block| block.push(object));
        if !has_room {
            self.begin(class).push(object);
        }
    }

    /// Another page in front of the others.
    #[inline(never)]
    fn begin(&mut self, class: usize) -> &mut Block {
        let mut block = match self.spare.take() {
            Some(mut block) => {
                self.spare = block.take_next();
                self.spares -= 1;
                block
            }
            None => Block::new(),
        };
        block.reset(self.pages[class].take());
        self.pages[class].insert(block)
    }

    /// Keeps an empty page, or gives it back when there are enough.
    fn keep(&mut self, mut block: Block) -> Option<Block> {
        if self.spares == SPARE_MAX {
            return Some(block);
        }
        block.reset(self.spare.take());
        self.spare = Some(block);
        self.spares += 1;
        None
    }
}

/// Objects of four caches, in pages.
#[derive(Debug)]
pub(super) struct Blocks {
    caches: [Cache; SIZES.len()],
}

impl Blocks {
    pub(super) fn new(caches: [Cache; SIZES.len()]) -> Blocks {
        Blocks { caches }
    }
}

impl Form for Blocks {
    type State = Collected;
    type Taken = [Option<Block>; SIZES.len()];

    #[inline(never)]
    fn repeat(&self, cpus: &Cpus<Collected>, groups: usize) {
        for _ in 0..groups {
            for (class, cache) in self.caches.iter().enumerate() {
                let object = allocate(cache);
                cpus.here(|collected| collected.add(class, object));
            }
        }
    }

    fn take(state: &mut Collected) -> [Option<Block>; SIZES.len()] {
        core::mem::take(&mut state.pages)
    }

    fn free(&self, cpu: &Cpu<Collected>, taken: [Option<Block>; SIZES.len()]) {
        for (class, mut next) in taken.into_iter().enumerate() {
            while let Some(mut block) = next {
                next = block.take_next();
                let objects = block.objects();
                // SAFETY: readers are gone, and each object was noted once.
                unsafe { self.caches[class].free_bulk(objects) };
                ledger::add_freed(objects.len() * SIZES[class]);
                // A page that is not kept is given back outside of the lock.
                drop(cpu.lock(|collected| collected.keep(block)));
            }
        }
    }

    fn trim(&self) {
        super::trim();
    }
}
